"""From a trained version and a question to an answer; pure, no server."""
