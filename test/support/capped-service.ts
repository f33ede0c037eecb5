import type { Responder } from '../extract/listing-server.ts';

/** A record of a service whose listing is capped. */
export interface CappedRecord {
  id: string;
  title: string;
  /** Epoch milliseconds; null for one without a time. */
  updated: number | null;
}

/** How it behaves; what is left out is what a healthy one does. */
export interface CappedBehaviour {
  /** The most records that one query lists, whatever there are. */
  cap: number;
  /** True if the total is that of what it lists, and not of what it has found. */
  hidesTotal?: boolean;
  ignores?: 'since' | 'until' | 'both' | 'format';
  /** True if it refuses to list without a window. */
  needsWindow?: boolean;
  /** Compares behind `since` and before `until` only, where it is true. */
  isExclusive?: boolean;
}

/** Lists `/v1/report?since&until&page&limit` in the order of ids, and no more than its cap. */
export function cappedService(records: Map<string, CappedRecord>, behaviour: CappedBehaviour): Responder {
  return (url) => {
    const id = /^\/v1\/report\/(.+)$/.exec(url.pathname)?.[1];
    if (id !== undefined) {
      const found = records.get(id);
      return found === undefined ? { status: 404, body: {} } : { body: shown(found) };
    }
    const { ignores, isExclusive = false } = behaviour;
    const asked = (name: 'since' | 'until'): number | null => {
      const text = url.searchParams.get(name);
      return text === null || ignores === name || ignores === 'both' ? null : Date.parse(text);
    };
    const [since, until] = [asked('since'), asked('until')];
    if (behaviour.needsWindow === true && !url.searchParams.has('since')) return { status: 400, body: {} };
    const found = [...records.values()].filter(({ updated }) => {
      if (since === null && until === null) return true;
      if (ignores === 'format' || updated === null) return false;
      const isBehind = since === null || (isExclusive ? updated > since : updated >= since);
      return isBehind && (until === null || (isExclusive ? updated < until : updated <= until));
    });
    const listed = found.toSorted((a, b) => (a.id < b.id ? -1 : 1)).slice(0, behaviour.cap);
    const [page, limit] = [Number(url.searchParams.get('page')), Number(url.searchParams.get('limit'))];
    const total = behaviour.hidesTotal === true ? listed.length : found.length;
    return { body: { data: listed.slice((page - 1) * limit, page * limit).map(shown), total } };
  };
}

function shown({ id, title, updated }: CappedRecord): object {
  return { id, title, updated_at: updated === null ? null : new Date(updated).toISOString() };
}
