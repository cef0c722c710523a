//! Source: HCA counters in sysfs, cgroups and job identity.
