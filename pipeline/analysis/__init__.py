"""Analysis: labelled results of a release with standard errors, and statistics that follow from them at no charge."""
