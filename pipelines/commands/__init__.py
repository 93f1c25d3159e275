"""The commands of ``colocast``, one a file; each imports what it needs when it is called."""
