"""Tables and pages from the folders of finished runs. Nothing here trains anything."""
