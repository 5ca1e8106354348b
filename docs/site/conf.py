"""How Sphinx makes the site; build.py calls it."""

project = author = html_title = "Blockveil"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["**/__pycache__"]
suppress_warnings = ["toc.not_included"]  # pages of rooms and decisions are reached by links

highlight_language = "text"  # a block without a language is what a terminal shows
html_theme = "furo"  # light and dark, and nothing is fetched from another host
html_show_sourcelink = False
html_show_copyright = False

myst_heading_anchors = 5  # links to headings work as where the pages are read as files

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the texts of the parameters say what they are
napoleon_google_docstring = False
