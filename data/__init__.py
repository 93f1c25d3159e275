"""Facts: domain types, errors, schemas, the job log, importers and samples."""
