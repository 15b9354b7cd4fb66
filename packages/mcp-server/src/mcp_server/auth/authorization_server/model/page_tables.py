"""The tables of the pages: browsers, remembered consent, delegated flows, login attempts, users."""

from __future__ import annotations

from typing import Final

__all__ = ["TABLES"]

TABLES: Final = """
    CREATE TABLE page_sessions (
        id TEXT PRIMARY KEY,
        browser TEXT NOT NULL,
        form_key BLOB NOT NULL,
        subject TEXT,
        shown TEXT,
        auth_time REAL,
        created_at REAL NOT NULL,
        used_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX page_sessions_by_use ON page_sessions (used_at);
    CREATE TABLE page_openings (
        pending TEXT PRIMARY KEY,
        browser TEXT NOT NULL,
        outcome TEXT,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX page_openings_by_end ON page_openings (expires_at);
    CREATE TABLE page_consents (
        subject TEXT NOT NULL,
        client TEXT NOT NULL,
        redirect_uri TEXT NOT NULL,
        resources TEXT NOT NULL,
        scopes TEXT NOT NULL,
        expires_at REAL NOT NULL,
        PRIMARY KEY (subject, client, redirect_uri, resources)
    ) WITHOUT ROWID;
    CREATE INDEX page_consents_by_end ON page_consents (expires_at);
    CREATE TABLE page_journeys (
        state TEXT PRIMARY KEY,
        pending TEXT NOT NULL,
        browser TEXT NOT NULL,
        scopes TEXT NOT NULL,
        verifier TEXT NOT NULL,
        nonce TEXT NOT NULL,
        remember INTEGER NOT NULL,
        expires_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX page_journeys_by_end ON page_journeys (expires_at);
    CREATE TABLE page_login_attempts (
        key BLOB PRIMARY KEY,
        left REAL NOT NULL,
        used_at REAL NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX page_login_attempts_by_use ON page_login_attempts (used_at);
    CREATE TABLE page_users (
        name TEXT PRIMARY KEY,
        password TEXT NOT NULL
    ) WITHOUT ROWID;
"""
"""SQL statements, each ended by a semicolon. They are executed when a file is created."""
