import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { EXIT_CODES } from '../src/cli/command/exit-code.ts';
import { runCli } from '../src/cli/commands.ts';
import { ERROR_EXPLANATIONS } from '../src/cli/explain.ts';
import { RATE_PRESETS } from '../src/config/profile/rate-dialect.ts';
import { SIGNATURE_PRESET_NAMES, SIGNATURE_PRESETS } from '../src/config/profile/signature-presets.ts';
import { DELIVERY_STATES } from '../src/database/inbox.ts';
import { LOG_LEVELS, OUTCOMES, RUN_STATUSES } from '../src/model/vocabulary.ts';
import { FLOORS } from './support/floors.ts';
import { GENERATED } from './support/generated-tables.ts';
import { codeBlocks, codeIn, PAGES, proseOf, readPage, tableRows } from './support/readme.ts';

const root = path.join(import.meta.dirname, '..');
const readme = readPage();
const config = readPage('config/README.md');
const migrations = readPage('migrations/README.md');
const house = readPage('src/README.md');
const sandbox = readPage('src/sandbox/README.md');
const all = PAGES.map(readPage);
const { scripts }: { scripts: Record<string, string> } = JSON.parse(
  readFileSync(path.join(root, 'package.json'), 'utf8'),
);

/** Commands that take no sources of a config. */
const WITHOUT_SOURCES = new Set([
  'init',
  'config probe',
  'config profiles list',
  'config profiles show',
  'demo',
  'demo sandbox',
  'config schema',
  'config alerts test',
  'export monitoring',
  'export deployment',
  'explain',
]);

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

describe('the READMEs', () => {
  it('begin with one that is read: its first result and its page on the first screens, in less than 300 lines', () => {
    const lines = readme.text.split('\n');
    expect(lines.length).toBeLessThan(300);
    expect(lines.slice(0, 12).join('\n')).toContain('npm ci && npm run demo');
    const [, picture = ''] = /<img [^>]*src="([^"]+)"/.exec(readme.text) ?? [];
    expect(statSync(path.join(root, picture)).size).toBeLessThan(200_000);
    const linked = all.map(({ file }) => file).filter((file) => !/^(README|test\/.*\/)/.test(file));
    for (const file of linked) expect(readme.text).toContain(`](${file})`);
  });

  it('show what the demo prints', () => {
    const text = readFileSync(path.join(root, 'src', 'cli', 'demo.ts'), 'utf8');
    const [shown = ''] = codeBlocks(readme.text, 'text');
    const titles = shown.split('\n').filter((line) => /^[A-Z]/.test(line));
    expect(titles.length).toBeGreaterThan(3);
    for (const title of titles) expect(text).toContain(title.replace(/http.*/, ''));
  });

  it('name every command with its options, and no others', () => {
    const rows = tableRows(readme.section('Commands')).filter(([command = '']) => command.startsWith('`content-sync '));
    const common = tableRows(readme.section('Commands')).filter(([option = '']) => option.startsWith('`-'));
    const commonFlags = common
      .flatMap(([option = '']) => codeIn(option))
      .flatMap((code) => code.match(/--[a-z-]+/) ?? []);
    expect(sorted(commonFlags)).toEqual(['--config', '--json', '--log-level', '--source']);
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
    const commands = calls.filter(([whole]) => !/^content-sync (?:run|if|\d)/.test(whole));
    expect(commands.length).toBeGreaterThan(10);
    for (const [, words = '', rest = ''] of commands) {
      const [first = ''] = words.split(' ');
      const called = GROUPS.has(first) ? words : first;
      expect([words, helps.has(called) || GROUPS.has(called)]).toEqual([words, true]);
      for (const [flag] of rest.matchAll(/(?<!\S)--(?!help\b)[a-z-]+/g))
        expect([called, flag, helps.get(called)?.includes(flag)]).toEqual([called, flag, true]);
    }
  });

  it.each(Object.entries(GENERATED))('%s has the tables that `npm run docs` writes', (file, upToDate) => {
    const { text } = readPage(file);
    expect(upToDate(text)).toBe(text);
  });

  it('name every choice of a setting', () => {
    const profile = config.section('The profile');
    for (const words of [OUTCOMES, Object.keys(RATE_PRESETS), SIGNATURE_PRESET_NAMES, DELIVERY_STATES])
      for (const word of words) expect(readme.text + config.text).toContain(`\`${word}\``);
    for (const status of RUN_STATUSES) expect(config.section('Output')).toContain(`\`${status}\``);
    for (const file of readdirSync(path.join(root, 'config/profiles')))
      expect(profile).toContain(`\`${path.basename(file, '.yaml')}\``);
  });

  it('say how a sender that signs nothing is set up', () => {
    const sentence = /[^.]*`Authorization: Bearer <secret>`/.exec(config.section('Signatures'))?.[0] ?? '';
    const alike = Object.entries(SIGNATURE_PRESETS).filter(
      ([, preset]) => 'base' in preset && preset.base === 'bearer',
    );
    expect(alike.length).toBeGreaterThan(0);
    for (const [name] of alike) expect(sentence).toContain(`\`${name}\``);
  });

  it('say what each outcome of an answer does', () => {
    const row = tableRows(config.section('The profile')).find(([field]) => field === '`outcomes[].outcome`');
    for (const outcome of OUTCOMES.slice(1, -1)) expect(row?.[2]).toContain(`\`${outcome}\` (`);
  });

  it('have the exit codes', () => {
    const rows = tableRows(readme.section('First aid'))
      .filter(([code = '']) => /^\d+$/.test(code))
      .map(([code, name]) => [name, Number(code)]);
    expect(Object.fromEntries(rows)).toEqual(EXIT_CODES);
  });

  it('have every error code that a person may meet, and none that does not exist', () => {
    const codes = codesInSource();
    const explained = Object.values(ERROR_EXPLANATIONS).flat();
    const tables = [explained.flatMap((each) => each.codes.split(' ')), codesListed(config.section('Warnings'))];
    for (const table of tables) expect(sorted(table)).toHaveLength(table.length);
    const listed = tables.flat();
    expect(listed.filter((code) => !codes.quoted.has(code))).toEqual([]);
    expect([...codes.thrown].filter((code) => !listed.includes(code) && !NEVER_SHOWN.has(code))).toEqual([]);
    const first = codesListed(readme.section('First aid'));
    expect(first.length).toBeGreaterThan(10);
    expect(first.filter((code) => !listed.includes(code))).toEqual([]);
  });

  it('have every option of the sandbox', () => {
    const options = tableRows(sandbox.section('Options')).flatMap(([option = '']) => codeIn(option));
    expect(sorted(options.map((option) => option.replace(/ .*/, '')))).toEqual(sorted(helps.get('demo sandbox') ?? []));
  });

  it('have the tables of our own', () => {
    const folder = path.join(root, 'migrations');
    const text = readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(path.join(folder, file), 'utf8'))
      .join('');
    const made = [...text.matchAll(/createTable\('(\w+)'\)/g)];
    const dropped = new Set([...text.matchAll(/dropTable\('(\w+)'\)/g)].map(([, name]) => name));
    const named = tableRows(migrations.section('Own tables')).flatMap(([name = '']) => codeIn(name));
    const kept = made.flatMap(([, name = '']) => (dropped.has(name) ? [] : [name]));
    expect(sorted(named)).toEqual(sorted(kept));
  });

  it('show the floors as they are held', () => {
    const [map = ''] = codeBlocks(house.section('Floors'), '');
    let floor = '';
    const shown = new Map<string, string[]>();
    for (const line of map.trimEnd().split('\n')) {
      floor = line.slice(0, 8).trim() || floor;
      shown.set(floor, [...(shown.get(floor) ?? []), line.slice(8).split(' ')[0] ?? '']);
    }
    FLOORS.forEach((rooms, at) => expect([at, sorted(shown.get(String(at)) ?? [])]).toEqual([at, sorted(rooms)]));
    expect(shown.get('apart')).toEqual(['sandbox']);
    const built = new Set(readdirSync(path.join(root, 'src')));
    for (const room of FLOORS.flat()) {
      expect([room, built.has(room)]).toEqual([room, true]);
    }
  });

  it.each(all)('$file leads nowhere that is not there', ({ file, text }) => {
    const prose = proseOf(text);
    const links = [...prose.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)].map(
      ([, link, picture]) => link ?? picture,
    );
    for (const link of links.filter((each) => !/^https?:/.test(each ?? ''))) {
      const [target = '', anchor] = (link ?? '').split('#');
      const leads = target === '' ? file : path.posix.join(path.posix.dirname(file), target);
      const isThere = existsSync(path.join(root, leads));
      expect([link, isThere && (anchor === undefined || anchorsOf(leads).includes(anchor))]).toEqual([link, true]);
    }
    const paths = codeIn(prose).filter((code) => /^(src|test|config|migrations)\/[\w./-]*$/.test(code));
    // The one that is the reader's own.
    for (const code of paths.filter((each) => each !== 'config/content-sync.yaml')) {
      expect([code, existsSync(path.join(root, code))]).toEqual([code, true]);
    }
  });

  it('name a file for every typical change', () => {
    const rows = tableRows(house.section('Where a change belongs'));
    expect(rows.length).toBeGreaterThan(9);
    for (const [change = '', files = ''] of rows) {
      const isNamed = codeIn(files).some((code) => code.startsWith('src/') || code.startsWith('migrations/'));
      expect([change, isNamed]).toEqual([change, true]);
    }
  });
});

/** Codes that end between two of our own functions: somebody else's are shown in their place. */
const NEVER_SHOWN: ReadonlySet<string> = new Set(['deadline', 'invalid_key', 'invalid_union']);

const THROWN = [
  /\b(?:SyncError|ConfigError|refusal|super)\(\s*'([a-z_]+)'/g,
  /\brow\('\w+', '([a-z_]+)'/g,
  /\bcode: (?:\w+ \? )?'([a-z]+_[a-z_]+)'/g,
  /\bcode: \w+ \? '[a-z_]+' : '([a-z_]+)'/g,
];

/** Codes of the program itself: those that are thrown or warned of, and every word that might be one. */
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

/** The codes in the first column of a table. */
function codesListed(section: string): string[] {
  return tableRows(section).flatMap(([codes = '']) => codeIn(codes));
}

function anchorsOf(file: string): string[] {
  const prose = proseOf(readPage(file).text);
  return [...prose.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );
}
