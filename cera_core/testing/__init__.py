"""The conformance kit for authors of drafters and backends."""
