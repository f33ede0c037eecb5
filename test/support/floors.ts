import path from 'node:path';

/** Source text by path relative to the repository, with forward slashes. */
export type SourceTree = ReadonlyMap<string, string>;

/** The floors of the design, ground first: an import may only fall. The README shows the same map. */
export const FLOORS: readonly (readonly string[])[] = [
  ['model'],
  ['config', 'observe', 'rows'],
  ['database', 'object-store'],
  ['http', 'views'],
  ['pagination', 'load', 'export'],
  ['checks'],
  ['sync', 'probe'],
  ['server'],
  ['cli'],
  ['main.ts'],
];

/** Neighbours that may look at each other, one way; and who may see the sandbox. */
const EXCEPTIONS: ReadonlySet<string> = new Set([
  'cli > sandbox',
  'observe > config',
  // What loading takes from a walk is its types.
  'load > pagination',
]);

const NAMES_THAT_HOLD_ANYTHING =
  /^(utils?|helpers?|lib|common|shared|misc|types|index|manager|service|words|handler|processor)$/;
const MAX_LINES = 500;

/** Everything in the tree that breaks the house's rules, as one sentence each. */
export function violations(tree: SourceTree): string[] {
  return [...upwardImports(tree), ...circles(tree), ...sizesAndNames(tree), ...lostMentions(tree)];
}

function upwardImports(tree: SourceTree): string[] {
  return [...tree].flatMap(([file, text]) =>
    importsOf(file, text).flatMap((target) => {
      const [from, to] = [roomOf(file), roomOf(target)];
      if (from === to || to === 'migrations' || EXCEPTIONS.has(`${from} > ${to}`)) return [];
      const isAllowed = from === 'sandbox' ? to === 'model' : floorOf(to) < floorOf(from);
      return isAllowed ? [] : [`${file} imports ${target}: ${from} may not see ${to}`];
    }),
  );
}

/** Depth-first over value and type imports alike; every circle is named once, by the file that closes it. */
function circles(tree: SourceTree): string[] {
  const found: string[] = [];
  const state = new Map<string, 'open' | 'done'>();
  const follow = (file: string, trail: readonly string[]): void => {
    if (state.get(file) === 'open') found.push(`circle: ${[...trail.slice(trail.indexOf(file)), file].join(' > ')}`);
    if (state.has(file)) return;
    state.set(file, 'open');
    for (const target of importsOf(file, tree.get(file) ?? '')) follow(target, [...trail, file]);
    state.set(file, 'done');
  };
  for (const file of tree.keys()) follow(file, []);
  return found;
}

function sizesAndNames(tree: SourceTree): string[] {
  const found: string[] = [];
  for (const [file, text] of tree) {
    const lines = text.split('\n').length - 1;
    if (lines > MAX_LINES) found.push(`${file} has ${lines} lines, more than ${MAX_LINES}: it is two things`);
    const empty = file
      .replace(/\.ts$/, '')
      .split('/')
      .filter((name) => NAMES_THAT_HOLD_ANYTHING.test(name));
    for (const name of empty) found.push(`${file}: "${name}" says nothing`);
  }
  return found;
}

/** Files that a comment names, by the end of their path, and that are not there. */
function lostMentions(tree: SourceTree): string[] {
  const files = [...tree.keys()];
  return [...tree].flatMap(([file, text]) =>
    [...text.matchAll(/^\s*(?:\/\/|\/?\*).*$/gm)]
      .flatMap(([comment]) => comment.match(/[\w-]+(?:\/[\w-]+)*\.ts\b/g) ?? [])
      .filter((name) => !files.some((known) => `/${known}`.endsWith(`/${name}`)))
      .map((name) => `${file} names ${name}, which is not there`),
  );
}

/** Static and dynamic imports of files of ours, as paths relative to the repository. */
function importsOf(file: string, text: string): string[] {
  const pattern = /(?:from\s+|import\s+|import\()'(\.{1,2}\/[^']+)'/g;
  return [...text.matchAll(pattern)].map(([, target = '']) => path.posix.join(path.posix.dirname(file), target));
}

/** The folder below `src`, or the file's own name where it stands in `src` itself. */
function roomOf(file: string): string {
  const [top = '', room = ''] = file.split('/');
  return top === 'src' ? room : top;
}

function floorOf(room: string): number {
  const floor = FLOORS.findIndex((rooms) => rooms.includes(room));
  // A room that no floor knows is above everything, so that nobody may import it.
  return floor === -1 ? FLOORS.length : floor;
}
