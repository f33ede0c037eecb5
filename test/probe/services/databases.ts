// Services in the manner of Parse, CouchDB, Elasticsearch and Solr.
import { type Item, type Product, Refusal, refuseOthers, since, whole } from './service.ts';

const APP = 'shopApp42';
const KEY = 'r3stK3y-9f8e7d6c5b';

/** 100 at once and at most 1,000; an unknown parameter is refused. */
const parse: Product = {
  name: 'Parse Server: limit/skip, where as JSON, two headers',
  sizes: { Review: 341, Store: 5 },
  fields: ['objectId', 'title', 'updatedAt'],
  key: (at) => `x7${String(at).padStart(8, 'Q')}`,
  base: '/parse',
  credential: { secret: KEY, user: APP },
  options: ['--path', '/classes/Review', '/classes/Store'],
  place: /^\/parse\/classes\/(?<name>\w+)(?:\/(?<id>\w+))?$/,
  admits: ({ headers }) => headers['x-parse-application-id'] === APP && headers['x-parse-rest-api-key'] === KEY,
  denied: { status: 403, body: { error: 'unauthorized' } },
  list: (asked, items) => {
    const { query } = asked;
    const message = { code: 102, error: 'Invalid parameter for query' };
    refuseOthers(asked, /^(?:where|order|limit|skip|keys|excludeKeys|include|count)$/, message);
    let where: { updatedAt?: { $gte?: string | { iso: string } } } = {};
    try {
      where = JSON.parse(query.get('where') ?? '{}');
    } catch {
      throw new Refusal(400, { code: 107, error: 'Invalid JSON' });
    }
    const moment = where.updatedAt?.$gte;
    const all = since(items, 'updatedAt', typeof moment === 'object' ? moment.iso : moment);
    const [limit, skip] = [whole(query, 'limit', 100, 1_000), whole(query, 'skip', 0)];
    const count = query.get('count') === '1' ? { count: all.length } : {};
    return { body: { results: all.slice(skip, skip + limit), ...count } };
  },
};

const withRev = (doc: Item): Item => ({ ...doc, _rev: `1-${doc['_id']}` });

/** All rows at once unless a limit is given; documents only on request. */
const couchDb: Product = {
  name: 'CouchDB: _all_dbs, _all_docs, limit/skip, basic',
  sizes: { recipes: 263, cooks: 5 },
  fields: ['_id', 'title', 'changed_at'],
  key: (at) => `doc-${String(at).padStart(5, '0')}`,
  credential: { secret: 'relax', user: 'admin' },
  admits: ({ path, headers }) => path === '/' || headers.authorization === `Basic ${btoa('admin:relax')}`,
  others: ({ path }, names) => {
    if (path === '/')
      return { body: { couchdb: 'Welcome', version: '3.3.3', vendor: { name: 'The Apache Software Foundation' } } };
    return path === '/_all_dbs' ? { body: names } : undefined;
  },
  place: /^\/(?<name>[a-z]+)\/(?:_all_docs|(?<id>[^/]+))$/,
  one: (item) => withRev(item),
  list: ({ query }, items) => {
    const from: string = JSON.parse(query.get('startkey') ?? query.get('start_key') ?? '""');
    const [limit, skip] = [whole(query, 'limit', 1e9), whole(query, 'skip', 0)];
    const hasDocs = query.get('include_docs') === 'true';
    const offset = items.filter((item) => String(item['_id']) < from).length + skip;
    const rows = items.slice(offset, offset + limit).map((doc) => {
      const row = { id: doc['_id'], key: doc['_id'], value: { rev: `1-${doc['_id']}` } };
      return hasDocs ? Object.assign(row, { doc: withRev(doc) }) : row;
    });
    return { body: { total_rows: items.length, offset, rows } };
  },
};

/** 10 hits at once, 10,000 in all; the key of the hit is in the document too. */
const elasticsearch: Product = {
  name: 'Elasticsearch: from/size, hits.hits._source, q, ApiKey',
  sizes: { articles: 375, authors: 6 },
  fields: ['slug', 'title', 'updated_at'],
  key: (at) => `entry-${at}`,
  credential: { secret: 'VnVhQ2ZHY0JDZGJrUW0tZTVhT3g6dWkybHAyYXhUTm1zeWFrdzl0dk5udw==' },
  options: ['--path', '/articles/_search', '/authors/_search'],
  admits: ({ headers }) => headers.authorization === `ApiKey ${elasticsearch.credential?.secret}`,
  denied: { headers: { 'www-authenticate': 'ApiKey' }, body: { error: { type: 'security_exception' }, status: 401 } },
  others: ({ path }) => {
    const version = { number: '8.14.1', build_flavor: 'default' };
    return path === '/' ? { body: { name: 'node-1', version, tagline: 'You Know, for Search' } } : undefined;
  },
  place: /^\/(?<name>\w+)\/(?:_search|_doc\/(?<id>[^/]+))$/,
  one: (item, name) => ({ _index: name, _id: item['slug'], _version: 1, found: true, _source: item }),
  list: (asked, items, name) => {
    const { query } = asked;
    const error = {
      error: { type: 'illegal_argument_exception', reason: 'contains unrecognized parameter' },
      status: 400,
    };
    refuseOthers(asked, /^(?:from|size|q|sort|_source|track_total_hits|df|default_operator)$/, error);
    const expression = query.get('q');
    const moment = /^updated_at:(?:>=|\[)"?([\d-]+T[\d.]+(?:\\?:[\d.]+)*Z)"?(?: TO \*\])?$/.exec(expression ?? '')?.[1];
    if (expression !== null && expression !== '*' && moment === undefined) throw new Refusal(400, error);
    const all = since(items, 'updated_at', moment?.replaceAll('\\', ''));
    const [from, size] = [whole(query, 'from', 0), whole(query, 'size', 10)];
    if (from + size > 10_000) throw new Refusal(400, error);
    const hits = all
      .slice(from, from + size)
      .map((item) => ({ _index: name, _id: item['slug'], _score: 1, _source: item }));
    return {
      body: { took: 2, timed_out: false, hits: { total: { value: all.length, relation: 'eq' }, max_score: 1, hits } },
    };
  },
};

/** 10 documents at once; a query is needed, and a filter that cannot be read is refused. */
const solr: Product = {
  name: 'Solr: start/rows, response.docs, fq',
  sizes: { books: 289, shops: 4 },
  fields: ['id', 'title_s', 'updated_dt'],
  key: (at) => `978-${at}`,
  base: '/solr',
  options: ['--path', '/books/select?q=*:*', '/shops/select?q=*:*'],
  place: /^\/solr\/(?<name>\w+)\/select$/,
  missing: { body: '<html><body><h2>HTTP ERROR 404 Not Found</h2></body></html>' },
  list: ({ query }, items) => {
    const filter = query.get('fq');
    const moment = /^updated_dt:\[(\S+) TO \*\]$/.exec(filter ?? '')?.[1];
    if (filter !== null && moment === undefined) throw new Refusal(400, { error: { msg: 'Cannot parse', code: 400 } });
    const all = query.get('q') === '*:*' ? since(items, 'updated_dt', moment) : [];
    const [start, rows] = [whole(query, 'start', 0), whole(query, 'rows', 10)];
    const response = { numFound: all.length, start, numFoundExact: true, docs: all.slice(start, start + rows) };
    return { body: { responseHeader: { status: 0, QTime: 1, params: Object.fromEntries(query) }, response } };
  },
};

export const DATABASES = [parse, couchDb, elasticsearch, solr];
