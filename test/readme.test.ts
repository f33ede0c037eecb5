import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { EXIT_CODES } from '../src/cli/command/context.ts';
import { runCli } from '../src/cli/commands.ts';
import { ERROR_EXPLANATIONS } from '../src/cli/error-explanations.ts';
import { RATE_PRESET_NAMES } from '../src/config/profile/rate-dialect.ts';
import { SIGNATURE_PRESET_NAMES } from '../src/config/profile/signature-presets.ts';
import { DELIVERY_STATES } from '../src/database/inbox.ts';
import { LOG_LEVELS, OUTCOMES, RUN_STATUSES } from '../src/model/vocabulary.ts';
import { FLOORS } from './support/floors.ts';
import { TABLE_NAMES, updateTables } from './support/generated-tables.ts';
import { codeBlocks, codeIn, type Page, PAGES, proseOf, readPage, tableRows } from './support/readme.ts';

const root = path.join(import.meta.dirname, '..');
const all = PAGES.map(readPage);
const readme = readPage();
const commands = readPage('config/commands.md');
const errors = readPage('config/errors.md');
const source = readPage('src/README.md');
const { scripts }: { scripts: Record<string, string> } = JSON.parse(
  readFileSync(path.join(root, 'package.json'), 'utf8'),
);

/** Commands that take no sources of a config. */
const WITHOUT_SOURCES = new Set(['init', 'config probe', 'demo', 'demo sandbox', 'config alerts test', 'explain']);

/** Commands and their options as the help of each lists them. */
const helps = new Map<string, string[]>();

/** Commands that hold others. Some do something themselves, too. */
const GROUPS = new Set<string>();

const TAKES_ARGUMENTS = /^Usage: .*\[command\] \[/;

beforeAll(async () => {
  for (const name of commandsIn(await helpOf())) await collectHelp([name]);
});

/** Keeps the options of a command and of those below it. */
async function collectHelp(words: string[]): Promise<void> {
  const help = await helpOf(...words);
  const below = commandsIn(help);
  if (below.length > 0) GROUPS.add(words.join(' '));
  if (below.length === 0 || TAKES_ARGUMENTS.test(help) || words[0] === 'demo')
    helps.set(words.join(' '), optionsIn(help));
  for (const name of below) await collectHelp([...words, name]);
}

/** The commands that a help lists, where it lists any. */
function commandsIn(help: string): string[] {
  const list = help.split('\nCommands:\n')[1]?.split('\n\n')[0] ?? '';
  return [...list.matchAll(/^ {2}([a-z]+)(?= |$)/gm)].map(([, name = '']) => name).filter((name) => name !== 'help');
}

/** The help of a command, by the command line in this process: a process for each would be most of this file's time. */
async function helpOf(...words: string[]): Promise<string> {
  const shown = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  try {
    await runCli([...words, '--help'], { version: '0.0.0', signal: new AbortController().signal, secrets: [] });
    return shown.mock.calls.map(([text]) => String(text)).join('');
  } finally {
    shown.mockRestore();
  }
}

/** Long options at the beginning of help lines, without `--help`. */
function optionsIn(help: string): string[] {
  return [...help.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)]
    .map(([, flag = '']) => flag)
    .filter((flag) => flag !== '--help');
}

const sorted = (values: Iterable<string>): string[] => [...new Set(values)].toSorted();

describe('the docs', () => {
  it('are short: 150 lines for the README, 30,000 words for all', () => {
    const lines = readme.text.split('\n');
    expect(lines.length).toBeLessThanOrEqual(151);
    expect(source.text.split('\n').length).toBeLessThanOrEqual(121);
    expect(lines.slice(0, 12).join('\n')).toContain('npm ci && npm run demo');
    const [, picture = ''] = /<img [^>]*src="([^"]+)"/.exec(readme.text) ?? [];
    expect(statSync(path.join(root, picture)).size).toBeLessThan(200_000);
    expect(all.reduce((words, { text }) => words + text.split(/\s+/).length, 0)).toBeLessThan(30_000);
  });

  it('are all linked from the README or the index of the reference, and say what the reader can do', () => {
    const index = readPage('config/README.md').text;
    const isLinked = ({ file }: Page): boolean =>
      readme.text.includes(`](${file})`) || index.includes(`](${path.posix.relative('config', file)})`);
    const pages = all.filter(({ file }) => !/^(README|test\/.*\/)/.test(file));
    expect(pages.filter((page) => !isLinked(page)).map(({ file }) => file)).toEqual([]);
    const reference = pages.filter(({ file }) => /^(config|src)\//.test(file) && file !== 'config/README.md');
    for (const { file, text } of reference)
      expect([file, text]).toEqual([file, expect.stringMatching(/^# .*\n\nAfter this page you /)]);
  });

  it('show what the demo prints', () => {
    const text = readFileSync(path.join(root, 'src', 'cli', 'demo.ts'), 'utf8');
    const [shown = ''] = codeBlocks(readme.text, 'text');
    const titles = shown.split('\n').filter((line) => /^[A-Z]/.test(line));
    expect(titles.length).toBeGreaterThan(3);
    for (const title of titles) expect(text).toContain(title.replace(/http.*/, ''));
  });

  it('name every command with its options, and no others', () => {
    const rows = tableRows(commands.section('All commands'));
    const common = tableRows(commands.section('Options of most commands'));
    const commonFlags = common
      .flatMap(([option = '']) => codeIn(option))
      .flatMap((code) => code.match(/--[a-z-]+/) ?? []);
    const named = rows.flatMap(([command = '', what = '', more = '']) => {
      const words = /^content-sync ([a-z ]+)/.exec(codeIn(command)[0] ?? '')?.[1]?.trim();
      const own = codeIn(more).flatMap((code) => /^--[a-z-]+/.exec(code) ?? []);
      const without = /Without `(--[a-z-]+)`/.exec(what)?.[1];
      return words === undefined ? [] : [{ words, isDescribed: what !== '', own, without }];
    });
    for (const { words, isDescribed, own, without } of named) {
      const usesSources = !WITHOUT_SOURCES.has(words);
      const flags = usesSources ? [...own, ...commonFlags].filter((flag) => flag !== without) : own;
      if (words === 'demo sandbox') continue;
      expect([words, isDescribed, sorted(flags)]).toEqual([words, true, sorted(helps.get(words) ?? ['unknown'])]);
    }
    expect(sorted(named.map(({ words }) => words))).toEqual(sorted(helps.keys()));
    expect(codeIn(common.find(([option]) => option?.includes('--log-level'))?.[1] ?? '')).toEqual([...LOG_LEVELS]);
  });

  it('only show commands that exist, with options that they have', () => {
    const shown = all.flatMap(({ text }) => [
      ...codeBlocks(text, 'sh', '').join('\n').replaceAll('\\\n', ' ').split('\n'),
      ...codeIn(proseOf(text)),
    ]);
    const runs = shown.flatMap((line) => [...line.matchAll(/\bnpm (?:run (?:-s )?([\w:-]+)|(test|ci))/g)]);
    expect(runs.length).toBeGreaterThan(10);
    for (const [, script, builtIn] of runs)
      expect(Object.keys(scripts)).toContain(script ?? (builtIn === 'ci' ? 'test' : builtIn));
    const calls = shown.flatMap((line) =>
      Array.from(line.matchAll(/content-sync (?:-- )?([a-z]+(?: [a-z]+)?)\b(.*)$/g)),
    );
    const called = calls.filter(([whole]) => !/^content-sync (?:run|if|\d)/.test(whole));
    expect(called.length).toBeGreaterThan(10);
    for (const [, words = '', rest = ''] of called) {
      const [first = ''] = words.split(' ');
      const command = GROUPS.has(first) ? words : first;
      expect([words, helps.has(command) || GROUPS.has(command)]).toEqual([words, true]);
      for (const [flag] of rest.matchAll(/(?<!\S)--(?!help\b)[a-z-]+/g))
        expect([command, flag, helps.get(command)?.includes(flag)]).toEqual([command, flag, true]);
    }
  });

  it('have the tables that `npm run docs` writes, each once, with short cells', () => {
    const tables = all.flatMap(({ text }) =>
      Array.from(text.matchAll(/<!-- table: ([\w-]+) -->/g), ([, name = '']) => name),
    );
    expect(tables).toHaveLength(TABLE_NAMES.length);
    expect(sorted(tables)).toEqual(sorted(TABLE_NAMES));
    for (const { text } of all) expect(updateTables(text)).toBe(text);
    const cells = all.flatMap(({ text }) => tableRows(text).flat());
    expect(cells.filter((cell) => cell.replaceAll(/\]\([^)]*\)/g, '').length > 160)).toEqual([]);
  });

  it('name every choice of a setting', () => {
    const text = all.map((page) => page.text).join('');
    const choices = [OUTCOMES, RATE_PRESET_NAMES, SIGNATURE_PRESET_NAMES, DELIVERY_STATES, RUN_STATUSES];
    const profiles = readdirSync(path.join(root, 'config/profiles')).map((file) => path.basename(file, '.yaml'));
    for (const word of [...choices.flat(), ...profiles]) expect(text).toContain(`\`${word}\``);
  });

  it('have the exit codes', () => {
    const rows = tableRows(errors.section('Exit codes')).map(([code, name]) => [name, Number(code)]);
    expect(Object.fromEntries(rows)).toEqual(EXIT_CODES);
  });

  it('have every error code that a user may see, and none that does not exist', () => {
    const codes = codesInSource();
    const explained = Object.values(ERROR_EXPLANATIONS).flatMap((each) =>
      each.flatMap((entry) => entry.codes.split(' ')),
    );
    const warnings = Array.from(errors.section('Warnings').matchAll(/^- `(\w+)`/gm), ([, code = '']) => code);
    for (const codesOfOne of [explained, warnings]) expect(sorted(codesOfOne)).toHaveLength(codesOfOne.length);
    const listed = [...explained, ...warnings];
    expect(listed.filter((code) => !codes.quoted.has(code))).toEqual([]);
    expect([...codes.thrown].filter((code) => !listed.includes(code) && !NEVER_SHOWN.has(code))).toEqual([]);
  });

  it('have every option of the sandbox', () => {
    const options = tableRows(readPage('src/sandbox/README.md').section('Options')).flatMap(([option = '']) =>
      codeIn(option),
    );
    expect(sorted(options.map((option) => option.replace(/ .*/, '')))).toEqual(sorted(helps.get('demo sandbox') ?? []));
  });

  it('have the internal tables', () => {
    const folder = path.join(root, 'migrations');
    const text = readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(path.join(folder, file), 'utf8'))
      .join('');
    const made = [...text.matchAll(/createTable\('(\w+)'\)/g)];
    const dropped = new Set([...text.matchAll(/dropTable\('(\w+)'\)/g)].map(([, name]) => name));
    const named = tableRows(readPage('migrations/README.md').section('Own tables')).flatMap(([name = '']) =>
      codeIn(name),
    );
    const kept = made.flatMap(([, name = '']) => (dropped.has(name) ? [] : [name]));
    expect(sorted(named)).toEqual(sorted(kept));
  });

  it('show the layers as they are checked', () => {
    const [map = ''] = codeBlocks(source.section('Layers'), '');
    let layer = '';
    const shown = new Map<string, string[]>();
    for (const line of map.trimEnd().split('\n')) {
      layer = line.slice(0, 8).trim() || layer;
      shown.set(layer, [...(shown.get(layer) ?? []), line.slice(8).split(' ')[0] ?? '']);
    }
    FLOORS.forEach((folders, at) => {
      const named = (shown.get(String(at + 1)) ?? []).filter((name) => name !== '');
      expect([at, sorted(named)]).toEqual([at, sorted(folders)]);
    });
    const built = new Set(readdirSync(path.join(root, 'src')));
    for (const folder of FLOORS.flat()) expect([folder, built.has(folder)]).toEqual([folder, true]);
  });

  it.each(all)('$file has only links and paths that exist', ({ file, text }) => {
    const prose = proseOf(text);
    const links = [...prose.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)].map(
      ([, link, picture]) => link ?? picture ?? '',
    );
    const from = path.posix.dirname(file);
    const broken = links.filter((link) => !/^https?:/.test(link) && !leadsSomewhere(link, file, from));
    expect(broken).toEqual([]);
    const paths = codeIn(prose).filter((code) => /^(src|test|config|migrations)\/[\w./-]*$/.test(code));
    // These are the reader's own files.
    const own = /^config\/(content-sync|my-service)\.yaml$/;
    expect(paths.filter((code) => !own.test(code) && !existsSync(path.join(root, code)))).toEqual([]);
  });

  it('exist where the program and the example config name them', () => {
    const files = readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' }).map(
      (file) => `src/${file}`,
    );
    const texts = [...files.filter((file) => file.endsWith('.ts')), 'config/content-sync.example.yaml'];
    const named = texts.flatMap(
      (file) =>
        readFileSync(path.join(root, file), 'utf8').match(
          /\b(?:config|src|migrations|test)\/[\w./-]+\.md(?:#[\w-]+)?/g,
        ) ?? [],
    );
    expect(named.length).toBeGreaterThan(1);
    expect(named.filter((link) => !leadsSomewhere(link, '', ''))).toEqual([]);
  });
});

/** Codes that never leave the program: others are shown instead. */
const NEVER_SHOWN: ReadonlySet<string> = new Set(['deadline', 'invalid_key', 'invalid_union']);

const THROWN = [
  /\b(?:SyncError|ConfigError|refusal|super)\(\s*'([a-z_]+)'/g,
  /\brow\('\w+', '([a-z_]+)'/g,
  /\bcode: (?:\w+ \? )?'([a-z]+_[a-z_]+)'/g,
  /\bcode: \w+ \? '[a-z_]+' : '([a-z_]+)'/g,
];

/** Codes in the source: those that are thrown or warned of, and every quoted word. */
function codesInSource(): { thrown: Set<string>; quoted: Set<string> } {
  const folder = path.join(root, 'src');
  const [thrown, quoted] = [new Set<string>(), new Set<string>()];
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || /^(?:sandbox|cli.(?:demo|explain))\b/.test(file)) continue;
    const text = readFileSync(path.join(folder, file), 'utf8');
    for (const [, code = ''] of THROWN.flatMap((pattern) => Array.from(text.matchAll(pattern)))) thrown.add(code);
    for (const [, code = ''] of text.matchAll(/'([a-z_]+)'|^ +([a-z_]+): \{ isPartial/gm)) quoted.add(code);
    for (const [, code = ''] of text.matchAll(/^ +([a-z_]+): \{ isPartial/gm)) thrown.add(code);
  }
  return { thrown: thrown.difference(new Set(['ok'])), quoted: quoted.union(thrown) };
}

/** True if a link from a page leads to a file that exists, and to a heading of it. */
function leadsSomewhere(link: string, file: string, folder: string): boolean {
  const [target = '', anchor] = link.split('#');
  const leads = target === '' ? file : path.posix.join(folder, target);
  return existsSync(path.join(root, leads)) && (anchor === undefined || anchorsIn(leads).includes(anchor));
}

function anchorsIn(file: string): string[] {
  const prose = proseOf(readPage(file).text);
  return [...prose.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );
}
