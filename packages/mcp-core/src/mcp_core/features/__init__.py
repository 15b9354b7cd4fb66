"""Rules of single features that client and server share: tasks, sampling, apps, skills, `_meta`."""
