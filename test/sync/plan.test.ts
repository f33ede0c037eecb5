import { describe, expect, it } from 'vitest';
import type { CheckpointRow, RunRow } from '../../src/database/own-tables.ts';
import { freshCheckpoint } from '../../src/database/state/checkpoints.ts';
import { NO_COUNTERS } from '../../src/database/state/runs.ts';
import { type PlanInput, planScan } from '../../src/sync/plan.ts';
import { type ProfileChoice, profileWith } from '../support/page-records.ts';

const NOW = Date.parse('2026-11-20T12:00:00Z');
const FILTER = { incremental: { param: 'updated_since', lookback: '10m' } };
const FULL = {
  walk_mode: 'full',
  walk_position: '/v1/content?page=7',
  walk_started_at: '2026-11-20 11:00:00.000',
} as const;
const PART = { ...FULL, walk_mode: 'incremental', walk_since: '2026-11-19T23:50:00.000Z' } as const;
const DONE = {
  cursor: '2026-11-20T00:00:00.000Z',
  last_full_at: '2026-11-20 00:00:00.000',
  last_success_at: '2026-11-20 00:00:00.000',
};

/** The checkpoint as a run under this profile has left it. */
function left(fields: Partial<CheckpointRow>, profile: ProfileChoice = FILTER): CheckpointRow {
  const { fingerprint } = plan({ stored: null, profile }).checkpoint;
  return { ...freshCheckpoint('content', fingerprint), ...fields };
}

function plan(input: Partial<Omit<PlanInput, 'profile'>> & { profile?: ProfileChoice }) {
  const profile = profileWith(input.profile ?? FILTER);
  return planScan({
    command: 'sync',
    resource: 'content',
    stored: null,
    interrupted: null,
    credential: 'key',
    now: NOW,
    ...input,
    profile,
  });
}

function run(fields: Partial<RunRow>): RunRow {
  return {
    run_id: 'r1',
    resource: 'content',
    command: 'backfill',
    mode: 'full',
    status: 'interrupted',
    ...NO_COUNTERS,
    started_at: '2026-11-20 10:00:00.000',
    finished_at: null,
    warnings: null,
    error_code: null,
    error: null,
    error_hint: null,
    request_id: null,
    outcomes: null,
    ...fields,
  };
}

describe('planScan', () => {
  it.each([
    ['sync', 'never walked', {}, 'full', false, null],
    ['backfill', 'never walked', {}, 'full', false, null],
    ['sync', 'walked whole', DONE, 'incremental', false, '2026-11-19T23:50:00.000Z'],
    ['backfill', 'walked whole', DONE, 'full', false, null],
    ['sync', 'in a full walk', FULL, 'full', true, null],
    ['backfill', 'in a full walk', FULL, 'full', true, null],
    ['sync', 'in a second full walk', { ...DONE, ...FULL }, 'full', true, null],
    ['sync', 'in an incremental walk', { ...DONE, ...PART }, 'incremental', true, '2026-11-19T23:50:00.000Z'],
    ['backfill', 'in an incremental walk', { ...DONE, ...PART }, 'full', false, null],
    ['sync', 'walked whole, without a readable cursor', { ...DONE, cursor: 'page-7' }, 'full', false, null],
    ['sync', 'walked whole, without any cursor', { ...DONE, cursor: null }, 'full', false, null],
    ['sync', 'given a cursor by hand, never walked whole', { cursor: DONE.cursor }, 'full', false, null],
  ] as const)('%s of a resource %s', (command, _, fields, mode, resumed, since) => {
    const planned = plan({ command, stored: left(fields) });
    expect(planned).toMatchObject({ mode, resumed, checkpoint: { walk_mode: mode, walk_since: since, due_at: null } });
    const [position, startedAt] = resumed
      ? [FULL.walk_position, FULL.walk_started_at]
      : [null, '2026-11-20 12:00:00.000'];
    expect(planned.checkpoint).toMatchObject({ walk_position: position, walk_started_at: startedAt });
    expect(planned.checkpoint.cursor).toBe('cursor' in fields ? fields.cursor : null);
  });

  it.each([
    ['path', { path: '/articles' }],
    ['records', { records: 'items' }],
    ['id', { id: 'slug' }],
    ['updated', { updated: 'changed_at' }],
    ['query', { query: { locale: 'de' } }],
    ['depth', { depth: 2 }],
    ['json', { json: ['seo'] }],
  ])('F071 refuses rows that were made under another %s, and says how to rebuild them', (_, change) => {
    const stored = left(DONE);
    for (const command of ['sync', 'backfill'] as const) {
      expect(() => plan({ command, stored, profile: { ...FILTER, ...change } })).toThrowError(
        expect.objectContaining({
          name: 'ConfigError',
          code: 'profile_changed',
          hint: expect.stringContaining('backfill content --restart'),
        }),
      );
    }
  });

  it('leaves a parked resource alone until its time, and then goes on', () => {
    const stored = left({ ...FULL, due_at: '2026-11-20 12:00:00.001' });
    expect(() => plan({ stored })).toThrowError(expect.objectContaining({ name: 'DeferredError', until: NOW + 1 }));
    expect(plan({ stored, now: NOW + 1 })).toMatchObject({
      resumed: true,
      checkpoint: { walk_position: FULL.walk_position },
    });
  });

  it('F156 does not fetch again what an interrupted backfill had done: only what changed since', () => {
    const started = { started_at: '2026-11-19 23:00:00.000' };
    const interrupted = run(started);
    expect(plan({ command: 'backfill', stored: left(DONE), interrupted })).toMatchObject({ mode: 'incremental' });
    const before = run({ started_at: '2026-11-20 01:00:00.000' });
    expect(plan({ command: 'backfill', stored: left(DONE), interrupted: before })).toMatchObject({ mode: 'full' });
    const part = run({ ...started, mode: 'incremental' });
    const going = plan({ command: 'backfill', stored: left({ ...DONE, ...PART }), interrupted: part });
    expect(going).toMatchObject({ mode: 'incremental', resumed: true });
  });
});
