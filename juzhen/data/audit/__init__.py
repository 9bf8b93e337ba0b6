"""The audit of leaks: which evaluation rows training sets and running text give away. The finders are in
`juzhen/data/leaks`, so that a job can leave such rows out."""
