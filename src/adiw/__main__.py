"""``python -m adiw`` is the command ``adiw``."""

from adiw.cli import main

if __name__ == "__main__":
    main()
