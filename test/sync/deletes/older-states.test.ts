import { describe, expect, it } from 'vitest';
import { USUAL } from '../../support/databases.ts';
import type { OwnRecord } from '../../support/record-service.ts';
import { ownStage, type OwnStage } from '../../support/own-stage.ts';

const OLD: OwnRecord = { id: 3, title: 'old', updated_at: '2026-03-01T08:00:00Z' };
const NEW: OwnRecord = { id: 3, title: 'new', updated_at: '2026-03-01T09:00:00Z' };
const RECORDS: OwnRecord[] = [
  { id: 1, title: 'first', updated_at: '2026-03-01T08:30:00Z' },
  { id: 2, title: 'second', updated_at: '2026-03-01T08:59:00Z' },
  NEW,
];
const BLIND = { item: null };
/** A listing that is hardly late: walks that follow each other at once are of different times. */
const PROMPT = { deletes: { settle: '1ms', max_part: 1 } };

async function titleOf(stage: OwnStage): Promise<unknown> {
  return (await stage.rows())[2]?.['title'];
}

async function versionsOf(stage: OwnStage): Promise<unknown[]> {
  return stage.rows("SELECT body FROM _sync_versions WHERE id = '3' ORDER BY version");
}

function notes(stage: OwnStage): Promise<unknown[]> {
  return stage.rows('SELECT record_id, reason, sweeps FROM _sync_suspects');
}

// Decided above the databases: the soak tries the other one.
describe.for([USUAL])('a listing that shows an older state than the row, on $name', (database) => {
  it.for(['sync', 'backfill'] as const)(
    'is not believed in a %s where the record read alone is the newer one',
    async (command) => {
      const stage = await ownStage(database, RECORDS);
      // The listing's replica lags behind.
      stage.service.behaviour.listed = (record) =>
        record.id === 3 ? { ...OLD, updated_at: '2026-03-01T08:55:00Z' } : record;
      expect(await stage.walk(command)).toMatchObject({ status: 'ok', updated: 0 });
      expect(await titleOf(stage)).toBe('new');
      expect(await versionsOf(stage)).toHaveLength(1);
      expect(await notes(stage)).toEqual([]);
    },
  );

  it('is accepted if the record read alone is so: one that was restored or corrected', async () => {
    const stage = await ownStage(database, RECORDS);
    stage.service.put(OLD);
    expect(await stage.walk()).toMatchObject({ status: 'ok', updated: 1 });
    expect(await titleOf(stage)).toBe('old');
    expect(await notes(stage)).toEqual([]);
    expect(await stage.walk()).toMatchObject({ status: 'ok', updated: 0 });
  });

  it('is not accepted at a second whole walk so soon that the same lag explains both', async () => {
    const stage = await ownStage(database, RECORDS, { content: BLIND });
    stage.service.behaviour.listed = (record) =>
      record.id === 3 ? { ...OLD, updated_at: '2026-03-01T08:55:00Z' } : record;
    for (const sweeps of [1, 2]) {
      expect(await stage.walk()).toMatchObject({ status: 'partial', updated: 0, warnings: [{ code: 'older_listed' }] });
      expect(await notes(stage)).toEqual([{ record_id: '3', reason: 'older', sweeps }]);
    }
    expect(await versionsOf(stage)).toHaveLength(1);
  });

  it('is accepted at the second whole walk if records cannot be read alone', async () => {
    const stage = await ownStage(database, RECORDS, { content: BLIND, source: PROMPT });
    stage.service.put(OLD);
    const first = await stage.walk();
    expect(first).toMatchObject({ status: 'partial', updated: 0, warnings: [{ code: 'older_listed' }] });
    expect(await titleOf(stage)).toBe('new');
    expect(await notes(stage)).toEqual([{ record_id: '3', reason: 'older', sweeps: 1 }]);
    // Between them: it says so until it is decided.
    expect(await stage.walk('sync')).toMatchObject({ status: 'partial', mode: 'incremental', updated: 0 });
    expect(await stage.walk()).toMatchObject({ status: 'ok', updated: 1 });
    expect(await titleOf(stage)).toBe('old');
    expect(await notes(stage)).toEqual([]);
  });

  it('is not accepted by two whole walks that show two states, nor if it catches up in between', async () => {
    const stage = await ownStage(database, RECORDS, { content: BLIND });
    stage.service.put(OLD);
    await stage.walk();
    stage.service.put({ ...OLD, title: 'older still', updated_at: '2026-03-01T07:00:00Z' });
    expect(await stage.walk()).toMatchObject({ status: 'partial', updated: 0 });
    expect(await notes(stage)).toEqual([{ record_id: '3', reason: 'older', sweeps: 1 }]);
    stage.service.put(NEW);
    expect(await stage.walk()).toMatchObject({ status: 'ok', updated: 0 });
    expect(await notes(stage)).toEqual([]);
    expect(await titleOf(stage)).toBe('new');
    expect(await versionsOf(stage)).toHaveLength(1);
  });

  it.for<[string, (record: OwnRecord | undefined) => unknown]>([
    ['is not there', () => null],
    ['is another one', (record) => record && { ...record, more: true }],
  ])('is left to two whole walks where the record read alone %s', async ([, alone]) => {
    const stage = await ownStage(database, RECORDS, { behaviour: { alone }, source: PROMPT });
    stage.service.put(OLD);
    expect(await stage.walk()).toMatchObject({ status: 'partial', updated: 0, deleted: 0 });
    expect(await titleOf(stage)).toBe('new');
    expect(await stage.walk()).toMatchObject({ updated: 1, deleted: 0 });
    expect(await titleOf(stage)).toBe('old');
    expect(await notes(stage)).toEqual([]);
  });
});

describe.for([USUAL])('a row that a whole walk has not met, on $name', (database) => {
  it('is counted and shown while it is younger than deletes.settle', async () => {
    const stage = await ownStage(database, RECORDS, { content: BLIND });
    stage.service.records.delete('2');
    const report = await stage.walk();
    expect(report).toMatchObject({ status: 'partial', deleted: 0, warnings: [{ code: 'deletes_unconfirmed' }] });
    expect(report.warnings?.[0]?.message).toMatch(/1 row not met and younger than 10m 00s/);
    const { stdout } = await stage.command('deletes', 'list');
    expect(stdout).toMatch(
      /content +2 +open .*not listed by a full sync; its row is younger than 10m 00s \(deletes\.settle\)/,
    );
  });

  it('goes with the first walk if deletes.settle is short', async () => {
    const stage = await ownStage(database, RECORDS, { content: BLIND, source: PROMPT });
    stage.service.records.delete('2');
    expect(await stage.walk()).toMatchObject({ status: 'ok', deleted: 1 });
  });
});
