//! libibumad declarations, opened at run time, layout checked against the header.
