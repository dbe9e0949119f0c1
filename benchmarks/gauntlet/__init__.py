"""The gauntlet: real tasks of many kinds on which a default is chosen and then confirmed, see README.md."""
