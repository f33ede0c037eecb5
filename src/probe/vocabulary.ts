// The words of services: every parameter, path, header and name that `probe` tries. To teach it another one, add it below:
// - a parameter for pages: a line in PAGE_PARAMS (its size, then number or offset), or a word in CURSOR_PARAMS;
// - a filter for what changed since a time: a line in FILTERS;
// - a way to send a key: a line in KEY_HEADERS or HEADER_PAIRS;
// - a listing: a word in USUAL_NAMES; a place of descriptions: OPENAPI_PATHS; a whole product: a line in FAMILIES.
// Nothing else needs to be changed: each entry is tried and verified like the others, the first ones first.

const lines = (text: string): string[] => text.trim().split(/\s*\n\s*/);
const words = (text: string): string[] => text.trim().split(/\s+/);
/** Lines of a first word and those that belong to it. */
const table = (text: string): Readonly<Record<string, readonly string[]>> =>
  Object.fromEntries(lines(text).map((line) => [words(line)[0] ?? '', words(line).slice(1)]));

/** Parameters for the page size, the usual ones first, each with those for the number or offset that go with it: `limit=2&page=2`. */
export const PAGE_PARAMS = table(`
  limit                page offset skip start
  per_page             page
  page_size            page page_number page_no page_num
  pageSize             page pageNumber pageNo pageNum pageIndex currentPage
  size                 page from number
  page[size]           page[number]
  _limit               _page _start _offset
  $top                 $skip
  $limit               $skip
  take                 skip page
  page[limit]          page[offset]
  count                offset page startIndex start
  filter[limit]        filter[skip] filter[offset]
  perPage              page
  pagination[pageSize] pagination[page]
  pagination[limit]    pagination[start] pagination[offset]
  rows                 start page offset
  max_results          page startAt
  maxResults           startAt startIndex page
  first                skip offset page
  itemsPerPage         page
  _per_page            _page
  items_per_page       page
  hitsPerPage          page
  top                  skip
  num                  start page
  results              page
  n                    page
  _size                _page _from
  pagesize             page
  length               start
  PageSize             Page PageNumber PageIndex
  Limit                Offset Skip Page
  page_limit           page page_offset
  amount               page offset
  page_count           page
  psize                page p pg
  sz                   pg page p
  ps                   p page pg
`);
/** Of services without a parameter for the size. */
export const NUMBER_PARAMS = words('page offset skip start p $skip _page from pageNumber page[number] startIndex');
/** Names of parameters that take a number of records rather than of a page. */
export const OFFSET = /offset|skip|start|from/i;

/** Parameters that take a cursor of a response; `{field}` is the name of the field that holds it. */
export const CURSOR_PARAMS = words(`
  cursor after {field} page_token pageToken starting_after next page[after] page[cursor] continuation continuationToken
  token marker $skiptoken offset page`);
/** Parameters that take the id of the last record. */
export const KEY_PARAMS = words(
  'starting_after after after_id since_id last_id min_id cursor start_after id_gt startkey',
);
/** Requests with the offset in a text: `{cursor}` is the offset. The second word is a header. */
export const OFFSET_TEXTS: readonly { query?: Record<string, string>; headers?: Record<string, string> }[] = [
  { headers: { Range: 'items={cursor}-' } },
  { headers: { Range: '{cursor}-' } },
  { query: { filter: '{"limit":100,"skip":{cursor}}' } },
  { query: { filter: '{"limit":100,"offset":{cursor}}' } },
  { query: { range: '[{cursor},99999]' } },
];
/** Numbers of records that services return by default: so many may be all, or only a page. */
export const USUAL_SIZES: ReadonlySet<number> = new Set([10, 20, 25, 30, 50, 100, 200, 250, 500, 1_000]);

/** Names of fields that hold the address of the next page, a cursor, or whether there are more records; in snake_case. */
export const NEXT_URL =
  /(?:^|[._:"])(?:next|next_?(?:page|url|uri|link|href|page_?ur[li]|page_?link)?|next\.href|@?odata[._]?next_?link)"?$/i;
export const CURSOR =
  /(?:^|[._"])(?:next|next_?cursor(?:_?mark)?|cursor|cursors?\.(?:next|after)|next_?page|next_?page_?token|next_?token|page_?token|next_?(?:key|offset|id|start)|after|end_?cursor|(?:next_?)?continuation(?:_?token)?|offset|scroll_?id|sync_?token|bookmark|marker|next_?marker|last_?key|skip_?token)$/i;
/** Headers that hold a cursor. */
export const CURSOR_HEADER = /continuation|next-?(?:page|cursor|token)|^x-cursor/;
export const HAS_MORE = /(?:^|[._])(?:has_?(?:more|next|next_?page)|more|is_?truncated)$/i;

/**
 * Queries that list what changed since a time: parameters, and what each takes, or several parameters joined by `&`.
 * `{since}` is the time, `{u}` the field with the time of change, `{c}` the one that replaces it if it is null. A service
 * that refuses unknown parameters is asked for one after the other, and so for the first ones only.
 */
export const FILTERS: readonly Readonly<Record<string, string>>[] = lines(`
  filter[_or][0][{u}][_gte]={since}&filter[_or][1][{c}][_gte]={since}
  filters[$or][0][{u}][$gte]={since}&filters[$or][1][{c}][$gte]={since}
  where[or][0][{u}][greater_than_equal]={since}&where[or][1][{c}][greater_than_equal]={since}
  updated_since modified_after updated_after since modified_since={since}
  {u}_gte {u}__gte {u}_since {u}_after {u}_min={since}
  filters[{u}][$gte] filter[{u}][_gte] {u}[gte] where[{u}][greater_than_equal] filter[{u}][gte]={since}
  updatedSince updatedAfter modifiedSince modifiedAfter changed_since changed_after updated_from={since}
  last_modified_after last_updated_after start_date from start_time after_time={since}
  {u}_from min_{u} {u}_gt {u}.gte={since}
  filter[{u}][$gte] filters[{u}][gte] where[{u}][$gte] {u}[$gte] {u}[after] filter[where][{u}][gte]={since}
  filter[updated_since] filter[modified_since] filter[since]={since}
  filter={u}:>='{since}'
  filter $filter={u} ge {since}
  filter={u}>='{since}'
  filter q={u}>={since}
  filter={u}:gte:{since}
  filter={"{u}":{"_gte":"{since}"}}
  filter where={"{u}":{"$gte":"{since}"}}
  filter={"where":{"{u}":{"gte":"{since}"}}}
  $filter={u} ge datetime'{since}'
  where={"{u}":{"gte":"{since}"}}
  where={"{u}":{"$gte":{"__type":"Date","iso":"{since}"}}}
  q={u}:>={since}
  q={u}:[{since} TO *]
  {u}=>={since}
  {u}=gte.{since}
  {u}=gte:{since}
`).flatMap((line) => {
  const parameters = line.split('&').map((each) => [each.replace(/=.*/, ''), each.replace(/^[^=]*=/, '')] as const);
  const [[names, takes] = ['', ''], ...others] = parameters;
  return words(names).map((name) => Object.fromEntries([[name, takes], ...others]));
});
/** Parameters with such names that a service names itself are tried first. */
export const SINCE_HINT = /(?:since|after|from|gte|min)$|updated|modified|changed/i;
export const NO_SINCE_HINT = /\[|before|sort|order|until|page|cursor|_lte?$/i;
/** Ways of writing a time, in the order in which they are tried. */
export const TIME_FORMATS = ['as_sent', 'yyyy-MM-dd HH:mm:ss', 'epoch_s', 'epoch_ms'] as const;

/** Paths of one record after that of its listing. */
export const ITEM_PATHS = ['/{id}', '/{id}/', '/{id}.json', '({id})', "('{id}')"];
/** Names of fields that identify a record, the surest first. */
export const ID_NAMES = words(
  'id _id uuid uid guid documentid sys.id objectid sid key identifier handle slug @id _links.self.href self href url sku code isbn',
);
/** Names of fields that may identify a record if no other does. */
export const OTHER_ID = /^(?:num|nr|no|pk|ref|name|email|path|title)|(?:number|code|no|nr|name|_id|ref)$/i;
/** Names of fields with the time of a change, of creation, and of fields that only look so. */
export const UPDATED = /updat|modif|chang|edit|revis|(?:^|[._])(?:mtime|lastmod)/i;
export const CREATED = /creat|insert|added|publish|(?:^|[._])(?:ctime|date|date_?gmt|uploaded_?(?:at|on))$/i;
export const ACTOR = /by(?:[._]|$)|[a-z]By(?:$|[A-Z])|user|author|count|version/;
/** Names of fields that mark deleted records, of fields with a state, and the states that mean deleted. */
export const DELETED = /^(?:deleted_?(?:at|on|date)?|is_?deleted|removed_?at|trashed_?at|_deleted|tombstone)$/i;
export const STATUS = /^(?:status|state|lifecycle_?state)$/i;
export const DELETED_STATES = ['trash', 'trashed', 'deleted'];
/** Headers that carry a key, the usual ones first: the name, and what stands before the key. */
export const KEY_HEADERS = lines(`
  X-API-Key
  Authorization Token
  Authorization
  Authorization Key
  Api-Key
  X-Auth-Token
  Authorization ApiKey
  Authorization Api-Key
  X-Access-Token
  X-Token
  X-Api-Token
  apikey
`);
/** Two headers for a user or an application and its key. */
export const HEADER_PAIRS = lines(`
  X-App-Id X-App-Key
  X-Parse-Application-Id X-Parse-REST-API-Key
  X-Client-Id X-Client-Secret
  X-Api-User X-Api-Key
  X-User-Id X-Auth-Token
  X-API-Id X-API-Key
  App-Id App-Key
  X-Account X-Api-Key
  X-Tenant-Id X-Api-Key
  X-Algolia-Application-Id X-Algolia-API-Key
`);
/** Headers of a product whose name the service tells. */
export const PRODUCT_HEADERS = ['X-{product}-API-Key', 'X-{product}-Key', 'X-{product}-Token'];
/** Query parameters that carry a key. */
export const KEY_QUERIES = words('api_key key access_token token apikey apiKey');
/** Paths at which services return the account of the caller. */
export const IDENTITY_PATHS = ['/users/me', '/me', '/user', '/account', '/auth/me', '/whoami'];
/** Parameters that list unpublished records too. */
export const VIEWS = [{ status: 'any' }, { status: 'all' }, { state: 'all' }];

/** Names that services give to the list of records; '' is the body itself. */
export const LIST_NAMES: ReadonlySet<string> = new Set(
  ' data items results records entries rows list docs content hits hits.hits values value _embedded member hydra:member Items Data Results'.split(
    ' ',
  ),
);
/** Lists that are likelier to be about the records than of them. */
export const ASIDE = /error|link|includ|meta|facet|filter|categor|breadcrumb|mapping|search/i;
/** Names of the one field of a list's entries that holds the record. */
export const WRAPPER = /^(?:node|doc|document|record|resource|item|entry|_source|value)$/;

/** Names that listings often have, the commonest first. */
export const USUAL_NAMES = words(`
  products orders customers users posts articles items books authors tasks projects events invoices tickets employees
  notes contacts tags categories comments movies documents people recipes messages issues devices accounts records
  companies courses students media pages assets teams clients suppliers reviews images files news collections entries
  stories groups members organizations vendors publishers brands locations stores warehouses payments subscriptions
  plans prices coupons albums songs artists lessons teachers departments countries cities places vehicles cars sensors
  measurements readings bookings rooms hotels flights jobs leads deals campaigns todos labels patients appointments
  inventory shipments transactions content objects`);
/** Where an API may begin below the address. */
export const ROOTS = ['', '/api', '/api/v1', '/v1'];
/** Where services keep the description of their API. */
export const OPENAPI_PATHS = words(`
  /openapi.json /swagger.json /v3/api-docs /docs/json /api-docs /swagger/v1/swagger.json /explorer/swagger.json
  /server/specs/oas`);
/** Relations of a `Link` header that lead to a description or an index. */
export const DESCRIBED_BY = /^(?:service-desc|describedby|https:\/\/api\.w\.org\/|.*#apiDocumentation)$/i;
/** What a service has besides content. */
export const NO_CONTENT =
  /^(?:admin|search|settings?|types|statuses|taxonomies|themes|plugins|templates?|template-parts|sidebars?|widgets?|widget-types|block.*|menus?|menu-.*|navigation|global-styles|font-.*|health.*|status|version|ping|info|login|logout|auth|token|batch|o?embed|me|self|graphql|docs|schema|specs?|openapi.*|swagger.*|api-docs|contexts?|profile|config(?:uration)?|permissions|roles|sessions|revisions|activity|presets|webhooks|flows|operations|panels|dashboards|server|utils|fields|relations|policies|access|translations|shares|versions|extensions|notifications|folders|application-passwords|pattern-directory|autosaves|count|metrics|\$metadata|_.*)$/i;

/**
 * Services that are recognised by their first response, by name: a pattern in it, where the names of the collections are, the
 * path of a collection and that of one record, and the field of an entry that has the name, unless it is the entry itself.
 */
export const FAMILIES = table(`
  CouchDB       "couchdb":                            /_all_dbs                 /{name}/_all_docs?include_docs=true /{name}/{id}
  Elasticsearch You.Know,.for.Search|"lucene_version" /_cat/indices?format=json /{name}/_search                     /{name}/_doc/{id} index
`);
