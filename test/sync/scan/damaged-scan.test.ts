import { describe, expect, it } from 'vitest';
import { differences } from '../../support/compare-copy.ts';
import { DATABASES, type TestDatabase, USUAL } from '../../support/databases.ts';
import { dumpCopy } from '../../support/dump-copy.ts';
import { journey, type Journey } from '../../support/journey.ts';
import { sampled } from '../../support/length.ts';

const SMALL = { generate: { content: 60, images: 5, analytics: 5 } };
const PROFILE = { resources: { content: { page: { size: 10 } }, images: null, analytics: null } };

/** What no run has written, and either database takes. A moment beyond the year 9999 has no place in our texts. */
const DAMAGES = [
  ['walk_mode', 'sideways'],
  ['walk_pages', -1],
  ['walk_records', -7],
  ['walk_total', -1],
  ['walk_position', 'evil.example/x'],
  ['walk_clock', '10000-01-01 00:00:00'],
  ['walk_started_at', '10000-01-01 00:00:00'],
  ['cursor_seen_at', '10000-01-01 00:00:00'],
  ['checked_at', '10000-01-01 00:00:00'],
] as const;

/** Values that only SQLite lets into such columns. */
const UNTYPED = [
  ['walk_pages', 'seven'],
  ['walk_position', Buffer.alloc(9)],
  ['walk_clock', '+010000-01-01 00:00:00'],
  ['walk_clock', '2026-02-31 99:00:00.000'],
  ['walk_since', 7],
] as const;

const damagesFor = ({ name }: TestDatabase) =>
  name === 'sqlite' ? sampled([...DAMAGES, ...UNTYPED], 3) : sampled(DAMAGES, 5, 1);

async function damage(stage: Journey, column: string, value: string | number | Buffer): Promise<void> {
  expect(await stage.write(`UPDATE _sync_checkpoints SET ${column} = ?`, value)).toBe(1);
}

function stored(stage: Journey): Promise<Record<string, unknown> | undefined> {
  const query = 'SELECT cursor, cursor_key, fingerprint, last_full_at, full_credential FROM _sync_checkpoints';
  return stage.read((db) => db.prepare<[], Record<string, unknown>>(query).get());
}

describe.for(DATABASES)('a checkpoint on $name', (database) => {
  it('that is damaged where it describes a walk costs that walk, and neither a row, a version nor the cursor', async () => {
    const stage = await journey({ database, sandbox: SMALL, profile: PROFILE });
    expect((await stage.run('backfill')).status).toBe('ok');
    const [copy, { last_full_at: _, ...kept }] = [await stage.read(dumpCopy), (await stored(stage)) ?? {}];
    for (const [column, value] of damagesFor(database)) {
      await damage(stage, column, value);
      const command = column.length % 2 === 0 ? 'backfill' : 'sync';
      const { status, resources } = await stage.run(command);
      expect([column, status, resources[0]?.inserted, resources[0]?.updated]).toEqual([column, 'ok', 0, 0]);
      expect(await stage.read(dumpCopy)).toEqual(copy);
      expect(await stored(stage)).toMatchObject(kept);
    }
    expect(await stage.read((db) => differences(db, stage.sandbox.store, { resources: ['content'] }))).toEqual([]);
  });

  it.runIf(database === USUAL)('stays sound whatever time the service says it is', async () => {
    const stage = await journey({
      database,
      sandbox: { ...SMALL, clockSkew: Date.parse('+012000-01-01T00:00:00Z') - Date.now() },
      profile: PROFILE,
    });
    for (const command of ['backfill', 'sync', 'sync', 'backfill'] as const) {
      expect((await stage.run(command)).status).toBe('ok');
    }
    expect(await stage.read((db) => differences(db, stage.sandbox.store, { resources: ['content'] }))).toEqual([]);
  });
});
