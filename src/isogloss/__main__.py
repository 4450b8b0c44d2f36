"""`python -m isogloss`."""

from isogloss.cli.app import main

if __name__ == "__main__":
    main()
