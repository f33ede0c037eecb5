import type { Asked } from '../story/told.ts';
import type { Post, Records } from '../story/records.ts';

/** A post from one sync to another; null while it is deleted. */
export interface Version {
  id: string;
  version: number;
  from: string;
  /** Null while it holds. */
  to: string | null;
  post: Post | null;
}

/** What a copy holds that saw the service at the moments of some syncs, computed from the service's records alone. */
export interface Expected {
  live: Records;
  /** Of the posts, in order. */
  versions: Version[];
  /** Of all resources. */
  deletes: { resource: string; id: string; deleted_at: string; restored_at: string | null }[];
  /** Numbers by resource. */
  counts: Record<string, { at: string; deleted: number; altered: number }>;
}

const RESOURCES = ['content', 'images', 'analytics'] as const;

/** All of it after the last of the syncs. */
export function expectedCopy(asked: readonly Asked[]): Expected {
  const live: Records = { content: new Map(), images: new Map(), analytics: new Map() };
  const expected: Expected = { live, versions: [], deletes: [], counts: {} };
  for (const resource of RESOURCES) {
    const syncs = asked.filter(({ resources }) => resources.includes(resource));
    const histories = historiesOf(syncs.map(({ at, records }) => ({ at, records: records[resource] })));
    const all = [...histories.values()];
    expected.deletes.push(...all.flatMap((history) => deletesIn(resource, history)));
    const ends = all.flatMap((history) => history.slice(-1));
    const isAltered = ({ version, body }: Stretch): boolean => body !== null && version > 1;
    expected.counts[resource] = {
      at: syncs.at(-1)?.at ?? '',
      deleted: ends.filter(({ body }) => body === null).length,
      altered: ends.filter(isAltered).length,
    };
    if (resource === 'content')
      expected.versions = all.flat().map(({ body, ...rest }) => Object.assign(rest, { post: bodyOf(body) }));
  }
  const last = asked.at(-1)?.records;
  return last === undefined ? expected : { ...expected, live: last };
}

/** As `Version`, with the body as a text. */
interface Stretch extends Omit<Version, 'post'> {
  body: string | null;
}

function historiesOf(syncs: readonly { at: string; records: ReadonlyMap<string, unknown> }[]): Map<string, Stretch[]> {
  const histories = new Map<string, Stretch[]>();
  for (const { at, records } of syncs) {
    for (const id of new Set([...histories.keys(), ...records.keys()])) {
      const body = records.has(id) ? JSON.stringify(records.get(id)) : null;
      const history = histories.get(id) ?? [];
      const last = history.at(-1);
      if (last?.body === body) continue;
      if (last !== undefined) last.to = at;
      histories.set(id, [...history, { id, version: history.length + 1, from: at, to: null, body }]);
    }
  }
  return histories;
}

function deletesIn(resource: string, history: readonly Stretch[]): Expected['deletes'] {
  return history
    .filter(({ body }) => body === null)
    .map(({ id, from, to }) => ({ resource, id, deleted_at: from, restored_at: to }));
}

function bodyOf(body: string | null): Post | null {
  return body === null ? null : JSON.parse(body);
}
