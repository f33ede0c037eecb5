import { describe, expect, it } from 'vitest';
import { olderPolicy } from '../../../src/sync/deletes/page-suspects.ts';
import type { SuspectRow } from '../../../src/warehouse/own-tables.ts';

const BEFORE = '2026-11-20 07:00:00.000';
const LAGGING = '2026-11-20 07:50:00.000';

function suspect(record_id: string, changed: Partial<SuspectRow> = {}): [string, SuspectRow] {
  const times = { found_at: BEFORE, evidence_at: BEFORE };
  const older = { resource: 'content', reason: 'older', state: 'open', detail: null, deleted_at: null } as const;
  return [record_id, { record_id, ...older, ...times, sweeps: 1, hash: `hash of ${record_id}`, ...changed }];
}

describe('an older state that a walk shows', () => {
  const suspects = new Map([
    suspect('shown'),
    suspect('shown as recently as the listing may lag', { evidence_at: LAGGING }),
    suspect('shown by an incremental walk', { sweeps: 0 }),
    suspect('missing', { reason: 'missing' }),
  ]);

  it('is accepted if a whole walk has shown the same longer ago than the listing may lag', () => {
    expect(olderPolicy({ suspects, mode: 'full', mayLagSince: LAGGING })).toEqual({
      acceptsOlder: false,
      seenBefore: new Map([['shown', 'hash of shown']]),
    });
  });

  it('is never accepted from an incremental walk', () => {
    const policy = olderPolicy({ suspects, mode: 'incremental', mayLagSince: LAGGING });
    expect(policy).toEqual({ acceptsOlder: false, seenBefore: new Map() });
  });
});
