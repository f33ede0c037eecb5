/** The name that a declaration uses for the files that stand in the folder itself. */
export const OWN_FILES = '.';

/** Which rooms of a folder each room may see, and `.` for the folder's own files. */
type Rooms = Readonly<Record<string, readonly string[]>>;

/**
 * The rooms within folders, by path below `src`: an import that is not declared here is refused. Two rooms never see
 * each other; a folder's own files may stand above its rooms, below them, or on both sides as long as no file is in a
 * circle.
 */
export const ROOMS: Readonly<Record<string, Rooms>> = {
  // The server puts the receiver and the pages together; neither knows the other.
  web: { '.': ['page', 'receiver'], page: ['.'], receiver: ['.'] },
  serve: {
    '.': ['alerts', 'cluster', 'work-items', 'status', 'dictionary', 'controls'],
    cluster: ['.', 'work-items', 'controls'],
    controls: [],
    'work-items': [],
    status: [],
    alerts: ['status'],
    dictionary: ['status'],
  },
  // What signs a delivery, what drains the inbox and what keeps the time know nothing of each other.
  trigger: { '.': [], drain: ['.'], schedule: ['.'], signature: ['.'] },
  warehouse: {
    '.': ['sqlite', 'postgres'],
    sqlite: ['.'],
    postgres: ['.'],
    copy: ['.', 'sqlite', 'postgres'],
  },
  'warehouse/postgres': {
    '.': ['connection', 'pages', 'widening', 'views', 'keys', 'inbox', 'coordination'],
    connection: [],
    pages: ['connection', 'widening'],
    widening: ['connection', 'views'],
    views: ['connection'],
    keys: ['connection', 'widening', 'views'],
    inbox: ['connection'],
    coordination: ['connection'],
  },
  'warehouse/sqlite': {
    '.': ['connection', 'pages', 'widening', 'views', 'keys', 'inbox', 'backup'],
    connection: [],
    pages: ['connection', 'widening'],
    widening: ['connection', 'views'],
    views: ['connection'],
    keys: [],
    inbox: ['connection'],
    backup: ['connection', 'inbox'],
  },
  state: { '.': [], files: ['.'] },
  shape: { '.': ['columns', 'records', 'json'], columns: ['.', 'records', 'json'], records: ['.', 'json'], json: [] },
  http: {
    '.': ['auth', 'body', 'outcome', 'download'],
    download: ['.', 'auth', 'body', 'outcome'],
    auth: ['.', 'body', 'outcome'],
    outcome: ['.', 'body'],
    body: [],
  },
  // Formats and places know nothing of each other.
  export: { '.': ['formats', 'places'], formats: [], places: [] },
  queue: { '.': ['budget', 'limits'], budget: ['.', 'limits'], limits: [] },
};
