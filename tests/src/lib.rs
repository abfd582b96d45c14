//! Whatever needs more than one package: pipeline, faults, parity with perf, tidy checks.
