"""The part of the records that a charge is of; NULL, and not hashed, where it is of all of them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column, also to the index that sums are read from."""
    op.add_column("entry", sa.Column("part", sa.Text))
    op.drop_index("by_dataset", "entry")
    columns = ["dataset", "kind", "part", "loss_ticks", "sampler_ticks", "pure_ticks", "failure_ticks"]
    op.create_index("by_dataset", "entry", columns)
