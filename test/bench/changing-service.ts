import { createServer } from 'node:http';
import { generatedRecords } from '../../src/sandbox/records/generated-records.ts';

/** Changes of one round lie so far apart, so that the overlap of the next run meets few of them again. */
const STEP_MS = 3_600;
const KEPT_ANSWERS = 4_096;

/**
 * A service as a process of its own whose answers take the same time however many records it has: `since` is looked up,
 * not searched. Its listing is in numbered pages. Told a number, it changes so many records, spread over all of them,
 * and tells when that is done. Arguments: how many records it has, and the key that it asks for.
 */
const count = Number(process.argv[2]);
const key = process.argv[3] ?? '';
const base = generatedRecords('content', count, 'updated', false);
/** Positions by the order of their changes, and the times of these. */
const changed: { position: number; at: number }[] = [];
const current = new Map<number, string>();
const answers = new Map<string, string>();
let rounds = 0;

function change(records: number): void {
  rounds += 1;
  answers.clear();
  const from = Date.now() - 23 * 3_600_000 + rounds * (records + 1) * STEP_MS;
  const stride = Math.floor(count / records);
  for (let index = 0; index < records; index += 1) {
    const position = index * stride + (rounds % stride);
    const at = from + index * STEP_MS;
    const record: object = JSON.parse(base.textAt(position).toString());
    current.set(
      position,
      JSON.stringify({ ...record, title: `round ${rounds}`, updated_at: new Date(at).toISOString() }),
    );
    changed.push({ position, at });
  }
}

function textAt(position: number): string {
  return current.get(position) ?? base.textAt(position).toString();
}

/** Where the first one lies that is not before the moment. */
function firstFrom(size: number, timeAt: (at: number) => number, since: number): number {
  let [low, high] = [0, size];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timeAt(middle) < since) low = middle + 1;
    else high = middle;
  }
  return low;
}

function listing(url: URL): string {
  const limit = Number(url.searchParams.get('limit') ?? 100);
  const offset = (Number(url.searchParams.get('page') ?? 1) - 1) * limit;
  const since = url.searchParams.get('updated_since');
  const found = since === null ? all() : changedSince(Date.parse(since));
  const end = Math.min(offset + limit, found.size);
  const texts = Array.from({ length: Math.max(0, end - offset) }, (_, index) =>
    textAt(found.positionAt(offset + index)),
  );
  return `{"data":[${texts.join(',')}],"total":${found.size}}`;
}

interface Found {
  size: number;
  positionAt: (at: number) => number;
}

function all(): Found {
  return { size: count, positionAt: (at) => at };
}

function changedSince(since: number): Found {
  const first = firstFrom(count, (at) => base.timeAt(at), since);
  // Few: those of the end, before anything was changed.
  const untouched = Array.from({ length: count - first }, (_, at) => first + at).filter((at) => !current.has(at));
  const later = changed.slice(firstFrom(changed.length, (at) => changed[at]?.at ?? 0, since));
  const positions = [...untouched, ...later.map(({ position }) => position)];
  return { size: positions.length, positionAt: (at) => positions[at] ?? 0 };
}

function answerTo(path: string): string | null {
  const url = new URL(path, 'http://localhost');
  const [, id] = /\/content(?:\/([^/]+))?$/.exec(url.pathname) ?? [null, null];
  if (id === null) return null;
  if (id === undefined) return listing(url);
  const position = base.positionOf(id);
  return position === -1 ? null : textAt(position);
}

const server = createServer((request, response) => {
  const path = request.url ?? '/';
  const isKnown = JSON.stringify(request.headers).includes(key);
  const text = isKnown ? (answers.get(path) ?? answerTo(path)) : null;
  if (text !== null && answers.size < KEPT_ANSWERS) answers.set(path, text);
  const status = isKnown ? (text === null ? 404 : 200) : 401;
  response.writeHead(status, { 'content-type': 'application/json' }).end(text ?? '{}');
});

process.on('message', (records: number) => {
  change(records);
  process.send?.('changed');
});
process.on('disconnect', () => process.exit());
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`);
});
