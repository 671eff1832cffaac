"""`python -m regard`: the command line."""

from regard.cli.main import run

if __name__ == "__main__":
    run()
