import type { StatusSnapshot } from '../../../src/server/status/snapshot.ts';
import type { SourceDetails } from '../../../src/server/status/source-details.ts';
import { NOW, resourceWith, runWith, snapshotWith, sourceWith } from './sample-status.ts';

const MINUTE = 60_000;
const REVOKED = {
  code: 'auth_refused',
  message: 'GET https://cms.shop.example.com/v1/content answered 401: the key was revoked',
  hint: 'put a valid key into sources.shop.auth.key, then restart serve',
};

/** So many sources: the third cannot be read, and the fourth fails. */
export function manySources(count: number): StatusSnapshot {
  const sources = Array.from({ length: count }, (_, at) => {
    const usual = sourceWith(`source-${at}`, {
      resources: ['content', 'images'].map((resource) =>
        resourceWith(resource, {
          last_success_at: NOW - (at + 1) * 7_300,
          runs: at === 3 ? [runWith({ status: 'failed', error: REVOKED })] : [runWith()],
        }),
      ),
    });
    const problem = { code: 'warehouse_unreachable', message: 'connect ECONNREFUSED 10.0.4.17:5432', hint: null };
    return at === 2 ? { ...usual, warehouse: { ...usual.warehouse, problem } } : usual;
  });
  return snapshotWith({ sources });
}

/** What the page of a source asks for, with something of everything. */
export function detailsOf(resources: readonly string[]): SourceDetails {
  const runs = resources.flatMap((resource) =>
    Array.from({ length: 9 }, (_, at) => ({
      ...runWith({ started_at: NOW - (4 + at * 60) * MINUTE, seconds: 2.4 * at, inserted: at % 5, deleted: at % 4 }),
      resource,
    })),
  );
  return {
    problem: null,
    runs: runs.toSorted((a, b) => b.started_at - a.started_at),
    rejects: [
      {
        resource: 'content',
        reason: 'id_missing',
        record_id: null,
        detail: 'the record has no field id',
        last_seen_at: NOW - 12 * MINUTE,
      },
    ],
    deliveries: (['done', 'dead', 'ignored'] as const).map((state, at) => ({
      seq: at,
      received_at: NOW - at * MINUTE,
      state,
      reason: state === 'done' ? null : 'the service answered 500 eight times',
      attempts: at,
      due_at: null,
      kind: 'content.updated',
      resource: 'content',
      record_id: 'post-17',
      repeats: at,
    })),
    schema_changes: [
      { changed_at: NOW, resource: 'content', table: 'content', column: 'minutes', from: null, to: 'integer' },
    ],
  };
}
