import type { Asked, Reply } from '../extract/listing-server.ts';

/** A record as its service keeps it; times in epoch milliseconds. */
export interface Entry {
  id: string;
  title: string;
  created: number;
  /** Null until it is changed for the first time. */
  changed: number | null;
}

/** How a service writes times and takes a moment, and the profile that says so. */
export interface Talk {
  what: string;
  fields: Record<string, unknown>;
  show: (entry: Entry) => object;
  list: (entries: readonly Entry[], params: URLSearchParams, sent: Asked) => Reply;
  /** An `incremental` that does not fit; `NONE` where there is none to try. */
  wrong: Record<string, unknown> | typeof NONE;
  /** Codes of the warnings by which a run tells that. */
  told: readonly string[];
}

export const NONE = 'none';

const NOT_BELIEVED = ['filter_not_believed'];

function lastOf({ changed, created }: Entry): number {
  return changed ?? created;
}

function iso(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** `2026-11-20 12:00:00`. */
function seconds(epochMs: number): string {
  return iso(epochMs).slice(0, 19).replace('T', ' ');
}

/** Local time of a place two hours ahead, as `2026-11-20T14:00:00`. */
function local(epochMs: number): string {
  return iso(epochMs + 7_200_000).slice(0, 19);
}

/** A page in the order of ids, and how many there are. */
function paged(found: readonly Entry[], params: URLSearchParams, show: Talk['show']): Reply {
  const sorted = found.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const [page, limit] = [Number(params.get('page') ?? 1), Number(params.get('limit') ?? 10)];
  return { body: { data: sorted.slice((page - 1) * limit, page * limit).map(show), total: sorted.length } };
}

/** A listing with one parameter that takes a moment; others are ignored, or refused where the service is strict. */
function byParam(
  name: string,
  fits: (entry: Entry, value: string) => boolean,
  show: Talk['show'],
  isStrict = false,
): Talk['list'] {
  return (entries, params) => {
    const strange = [...params.keys()].find((key) => !['page', 'limit', name].includes(key));
    if (isStrict && strange !== undefined) return { status: 400, body: { error: `unknown parameter ${strange}` } };
    const value = params.get(name);
    return paged(value === null ? entries : entries.filter((entry) => fits(entry, value)), params, show);
  };
}

const withZone: Talk['show'] = (entry) => ({
  id: entry.id,
  title: entry.title,
  updated_at: `${iso(lastOf(entry)).slice(0, 19)}.000+00:00`,
});
const withNull: Talk['show'] = ({ id, title, created, changed }) => ({
  id,
  title,
  date_created: iso(created),
  date_updated: changed === null ? null : iso(changed),
});
const withLocal: Talk['show'] = (entry) => ({ id: entry.id, title: entry.title, modified: local(lastOf(entry)) });
const withMs: Talk['show'] = (entry) => ({ id: entry.id, title: entry.title, updatedAt: iso(lastOf(entry)) });
const withEpoch: Talk['show'] = (entry) => ({
  id: entry.id,
  title: entry.title,
  updated: Math.floor(lastOf(entry) / 1_000),
});

/** True for what changed at a moment or later. */
function isSince(at: number | null, from: string | null): boolean {
  return at !== null && from !== null && iso(at) >= iso(Date.parse(from));
}

/** Services as there are, each with the trap that was seen in it. */
export const TALKS: readonly Talk[] = [
  {
    what: 'compares the moment as text',
    fields: {
      incremental: { param: 'filter', template: "updated_at:>='{since}'", format: 'yyyy-MM-dd HH:mm:ss' },
    },
    show: withZone,
    list: byParam(
      'filter',
      (entry, value) => {
        const [, since] = /^updated_at:>='(.*)'$/.exec(value) ?? [];
        return since === undefined || seconds(lastOf(entry)) >= since;
      },
      withZone,
    ),
    wrong: { param: 'filter', template: "updated_at:>='{since}'" },
    told: NOT_BELIEVED,
  },
  {
    what: 'has no time of change before the first one',
    fields: {
      updated: ['date_updated', 'date_created'],
      incremental: {
        query: {
          'filter[_or][0][date_updated][_gte]': '{since}',
          'filter[_or][1][date_created][_gte]': '{since}',
        },
      },
    },
    show: withNull,
    list: (entries, params) => {
      const [changed, created] = ['[0][date_updated]', '[1][date_created]'].map((field) =>
        params.get(`filter[_or]${field}[_gte]`),
      );
      const since = { changed: changed ?? null, created: created ?? null };
      if (since.changed === null && since.created === null) return paged(entries, params, withNull);
      const found = entries.filter(
        (entry) => isSince(entry.changed, since.changed) || isSince(entry.created, since.created),
      );
      return paged(found, params, withNull);
    },
    wrong: NONE,
    told: [],
  },
  {
    what: 'writes and takes local times by the second, and lists only what lies behind them',
    fields: {
      updated: 'modified',
      times: { modified: '+02:00' },
      incremental: { param: 'modified_after', format: "yyyy-MM-dd'T'HH:mm:ss" },
    },
    show: withLocal,
    list: byParam('modified_after', (entry, value) => local(lastOf(entry)) > value, withLocal),
    wrong: { param: 'modified_after', format: "'since 'yyyy-MM-dd" },
    told: NOT_BELIEVED,
  },
  {
    what: 'refuses every parameter that it does not know',
    fields: { updated: 'updatedAt', incremental: { param: 'filters[updatedAt][$gte]', format: 'iso' } },
    show: withMs,
    list: byParam('filters[updatedAt][$gte]', (entry, value) => lastOf(entry) >= Date.parse(value), withMs, true),
    wrong: { param: 'filters[updatedAt][$gte]', format: 'epoch_s' },
    told: NOT_BELIEVED,
  },
  {
    what: 'is asked by POST, and takes Unix seconds in its body',
    fields: {
      method: 'POST',
      updated: 'updated',
      body: { order: 'id' },
      incremental: { param: 'body:where.updated.gte', format: 'epoch_s' },
    },
    show: withEpoch,
    list: (entries, params, { body }) => {
      const asked: unknown = JSON.parse(body);
      const [, since] =
        /^\{"order":"id"(?:,"where":\{"updated":\{"gte":(\d+)\}\})?\}$/.exec(JSON.stringify(asked)) ?? [];
      const from = Number(since ?? 0) * 1_000;
      return paged(
        entries.filter((entry) => lastOf(entry) >= from),
        params,
        withEpoch,
      );
    },
    wrong: { param: 'body:where.updated.gte', format: 'epoch_ms' },
    told: NOT_BELIEVED,
  },
  {
    what: 'takes the moment in a header',
    fields: { updated: 'updatedAt', incremental: { param: 'header:X-Changed-Since', format: 'iso' } },
    show: withMs,
    list: (entries, params, { headers }) => {
      const since = String(headers['x-changed-since'] ?? '');
      return paged(
        entries.filter((entry) => iso(lastOf(entry)) >= since),
        params,
        withMs,
      );
    },
    wrong: { param: 'header:X-Changed-Since', format: "'after 'yyyy-MM-dd" },
    told: NOT_BELIEVED,
  },
  {
    what: 'knows days only, and lists what changed after them',
    fields: { updated: 'updated', incremental: { param: 'q', template: 'updated>{since}', format: 'dd/MM/yyyy' } },
    show: withEpoch,
    list: byParam(
      'q',
      (entry, value) => {
        const [, day = '', month = '', year = ''] = /^updated>(\d\d)\/(\d\d)\/(\d{4})$/.exec(value) ?? [];
        return iso(lastOf(entry)).slice(0, 10) > `${year}-${month}-${day}`;
      },
      withEpoch,
    ),
    wrong: NONE,
    told: [],
  },
];
