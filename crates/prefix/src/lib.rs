//! Programs with services, unpacked from the distribution's packages into a prefix and never installed.
