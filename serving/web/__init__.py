"""The edge: routes, wire types, errors, tokens, the API document."""
