import type { Reply, Responder } from '../extract/listing-server.ts';

export interface Item {
  id: number;
  title: string;
  updated_at: string;
}

export interface ListingDialect {
  style: 'page' | 'offset' | 'link-pages';
  order: 'id' | 'updated' | 'newest';
  total?: boolean;
  /** True where `updated_since` lists what changed at or after a moment. */
  filter?: boolean;
  /** True where a page behind the last one is refused. */
  refuses?: boolean;
}

/** Changes are of now, as those of any service are. */
const DAY = Date.now() - 86_400_000;
const ORDERS: Readonly<Record<ListingDialect['order'], (a: Item, b: Item) => number>> = {
  id: (a, b) => a.id - b.id,
  updated: (a, b) => a.updated_at.localeCompare(b.updated_at) || a.id - b.id,
  newest: (a, b) => b.updated_at.localeCompare(a.updated_at) || b.id - a.id,
};

/** A service whose records are cut into pages by number, and change while somebody reads them. */
export class MovingListing {
  readonly items = new Map<number, Item>();
  /** Called before each listing request with its number, from 1 on. */
  before: (request: number) => void = () => undefined;
  /** Called before each request of a page with the number of that page, if it names one. */
  asked: (page: number) => void = () => undefined;
  requests = 0;
  #now = DAY + 86_400_000;
  readonly #dialect: ListingDialect;

  constructor(count: number, dialect: ListingDialect) {
    this.#dialect = dialect;
    for (let id = 1; id <= count; id++) this.#put(id, `title ${id}`, DAY + id * 60_000);
  }

  /** A change now; the service's own time goes on by a minute with each. */
  change(id: number): void {
    this.#put(id, `changed ${(this.#now += 60_000)}`, this.#now);
  }

  remove(id: number): void {
    this.items.delete(id);
  }

  #put(id: number, title: string, at: number): void {
    this.items.set(id, { id, title, updated_at: new Date(at).toISOString() });
  }

  readonly respond: Responder = (url) => {
    const id = /\/report\/(\d+)$/.exec(url.pathname)?.[1];
    if (id !== undefined) {
      const item = this.items.get(Number(id));
      return item === undefined ? { status: 404, body: {} } : { body: item };
    }
    this.before((this.requests += 1));
    this.asked(Number(url.searchParams.get('page')));
    return this.#page(url);
  };

  #page(url: URL): Reply {
    const { style, order, total, filter, refuses } = this.#dialect;
    const since = filter ? (url.searchParams.get('updated_since') ?? '') : '';
    const all = [...this.items.values()].filter((item) => item.updated_at >= since).toSorted(ORDERS[order]);
    const size = Number(url.searchParams.get('limit'));
    const page = Number(url.searchParams.get('page') ?? 1);
    const start = style === 'offset' ? Number(url.searchParams.get('offset')) : Math.max(0, page - 1) * size;
    if (refuses && start > 0 && start >= all.length) return { status: 400, body: {} };
    const body = { data: all.slice(start, start + size), ...(total ? { total: all.length } : {}) };
    if (style !== 'link-pages' || start + size >= all.length) return { body };
    const next = new URL(url);
    next.searchParams.set('page', String(page + 1));
    return { body, headers: { link: `<${next.href}>; rel="next"` } };
  }
}

/** The profile of such a service. */
export function movingProfile({ style, total, filter }: ListingDialect, size: number): Record<string, unknown> {
  const page = { style: style === 'link-pages' ? 'link' : style, size, ...(total ? { total: 'total' } : {}) };
  return { page, item: '/report/{id}', incremental: filter ? { param: 'updated_since', overlap: '1s' } : null };
}
