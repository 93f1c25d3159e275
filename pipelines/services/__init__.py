"""The long-lived processes of an installation: started, watched, ended together."""
