"""What tables of a config are built of: fields, shapes of a record, axes of a grid, and what each query declares."""
