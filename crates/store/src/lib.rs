//! Schema, migrations, COPY writer, and the private PostgreSQL cluster. The only crate that knows SQL writes.
