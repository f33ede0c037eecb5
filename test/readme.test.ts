import { execFile } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { EXIT_CODES } from '../src/cli/command/exit-code.ts';
import { LOG_LEVELS, OUTCOMES, RUN_STATUSES } from '../src/model/vocabulary.ts';
import { FAULTS } from '../src/sandbox/faults/fault-script.ts';
import { SANDBOX_OPTIONS } from '../src/sandbox/sandbox-options.ts';
import { configJsonSchema, profileJsonSchema } from '../src/settings/json-schema.ts';
import { RATE_PRESETS } from '../src/source/rate-presets.ts';
import { SIGNATURE_PRESETS, SIGNATURE_PRESET_NAMES } from '../src/source/signature-presets.ts';
import { DELIVERY_STATES } from '../src/warehouse/inbox.ts';
import { FLOORS } from './support/floors.ts';
import { codeBlocks, codeIn, proseOf, readReadme, tableRows } from './support/readme.ts';
import { schemaFields } from './support/schema-fields.ts';

const root = path.join(import.meta.dirname, '..');
const MAIN = path.join(root, 'src/main.ts');
const readme = readReadme();
const { scripts }: { scripts: Record<string, string> } = JSON.parse(
  readFileSync(path.join(root, 'package.json'), 'utf8'),
);

/** Rooms on the map that are announced and not built. */
const LATER = new Set(['views']);

/** Commands and their options as the help of each lists them. */
const helps = new Map<string, string[]>();

/** Commands that hold others, and take nothing themselves. */
const GROUPS = new Set<string>();

beforeAll(async () => {
  await Promise.all(commandsIn(await helpOf()).map((name) => collectHelp([name])));
});

/** Keeps the options of a command and of those below it. */
async function collectHelp(words: string[]): Promise<void> {
  const help = await helpOf(...words);
  const below = commandsIn(help);
  if (below.length > 0) GROUPS.add(words.join(' '));
  else helps.set(words.join(' '), optionsIn(help));
  await Promise.all(below.map((name) => collectHelp([...words, name])));
}

/** The commands that a help lists, where it lists any. */
function commandsIn(help: string): string[] {
  const list = help.split('\nCommands:\n')[1]?.split('\n\n')[0] ?? '';
  return [...list.matchAll(/^ {2}([a-z]+)(?= |$)/gm)].map(([, name = '']) => name).filter((name) => name !== 'help');
}

/** `startCommand` belongs to one test; this is for what comes before them all. */
async function helpOf(...words: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...words, '--help']);
  return stdout;
}

/** Long options at the beginning of help lines, without `--help`. */
function optionsIn(help: string): string[] {
  return [...help.matchAll(/^ {2}(?:-\w, )?(--[a-z-]+)/gm)]
    .map(([, flag = '']) => flag)
    .filter((flag) => flag !== '--help');
}

const sorted = (values: Iterable<string>): string[] => [...new Set(values)].toSorted();

describe('the README', () => {
  it('names every command with its options, and no others', () => {
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
      const usesSources = !['demo', 'sandbox', 'config schema'].includes(words);
      const flags = usesSources ? [...own, ...commonFlags].filter((flag) => flag !== without) : own;
      if (words === 'sandbox') continue;
      expect([words, isDescribed, sorted(flags)]).toEqual([words, true, sorted(helps.get(words) ?? ['unknown'])]);
    }
    expect(sorted(named.map(({ words }) => words))).toEqual(sorted(helps.keys()));
    expect(codeIn(common.find(([option]) => option?.includes('--log-level'))?.[1] ?? '')).toEqual([...LOG_LEVELS]);
  });

  it('only shows commands that exist, with options that they have', () => {
    const lines = codeBlocks(readme.text, 'sh', '').join('\n').replaceAll('\\\n', ' ').split('\n');
    const shown = [...lines, ...codeIn(proseOf(readme.text))];
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
      for (const [flag] of rest.matchAll(/(?<!\S)--[a-z-]+/g))
        expect([called, flag, helps.get(called)?.includes(flag)]).toEqual([called, flag, true]);
    }
  });

  it.each([
    ['The config file', configJsonSchema()],
    ['The profile', profileJsonSchema()],
  ])('has every field of "%s" with its default, and no others', (heading, schema) => {
    const rows = tableRows(readme.section(heading)).map(([field = '', preset = '']) => [
      codeIn(field)[0],
      codeIn(preset)[0] ?? preset,
    ]);
    const fields = schemaFields(schema);
    expect(sorted(rows.map(([field = '']) => field))).toEqual(sorted(fields.keys()));
    expect(rows).toHaveLength(fields.size);
    for (const [field = '', preset = ''] of rows) {
      const expected = fields.get(field);
      const isEmpty = expected === '' && preset === "''";
      const fits =
        expected === undefined ? /^(–|required|api_key|oauth)$/.test(preset) : preset === expected || isEmpty;
      expect([field, preset, fits]).toEqual([field, preset, true]);
    }
  });

  it('names every choice of a setting', () => {
    const profile = readme.section('The profile');
    for (const words of [OUTCOMES, Object.keys(RATE_PRESETS), SIGNATURE_PRESET_NAMES, DELIVERY_STATES])
      for (const word of words) expect(readme.text).toContain(`\`${word}\``);
    for (const status of RUN_STATUSES) expect(readme.section('Output')).toContain(`\`${status}\``);
    for (const file of readdirSync(path.join(root, 'config/profiles')))
      expect(profile).toContain(`\`${path.basename(file, '.yaml')}\``);
  });

  it('says how a sender that signs nothing is set up', () => {
    const sentence = /[^.]*`Authorization: Bearer <secret>`/.exec(readme.section('Signatures'))?.[0] ?? '';
    const alike = Object.entries(SIGNATURE_PRESETS).filter(
      ([, preset]) => 'base' in preset && preset.base === 'bearer',
    );
    expect(alike.length).toBeGreaterThan(0);
    for (const [name] of alike) expect(sentence).toContain(`\`${name}\``);
  });

  it('says what each outcome of an answer does', () => {
    const row = tableRows(readme.section('The profile')).find(([field]) => field === '`outcomes[].outcome`');
    for (const outcome of OUTCOMES.slice(1, -1)) expect(row?.[2]).toContain(`\`${outcome}\` (`);
  });

  it('has the exit codes', () => {
    const rows = tableRows(readme.section('Exit codes')).map(([code, name]) => [name, Number(code)]);
    expect(Object.fromEntries(rows)).toEqual(EXIT_CODES);
  });

  it('has every flag of the sandbox as it is declared, and every fault with its parameters', () => {
    const flags = tableRows(readme.section('The sandbox')).flatMap(([flag = '']) =>
      codeIn(flag).filter((code) => code.startsWith('--')),
    );
    expect(flags).toEqual(Object.values(SANDBOX_OPTIONS).map(({ flag }) => flag));
    const faults = tableRows(readme.section('Faults')).map(([name = '', , parameters = '']) => [
      codeIn(name)[0],
      codeIn(parameters),
    ]);
    const known = Object.entries(FAULTS).map(([name, { defaults }]) => [name, Object.keys(defaults)]);
    expect(Object.fromEntries(faults)).toEqual(Object.fromEntries(known));
    expect(faults).toHaveLength(known.length);
  });

  it('has the tables of our own', () => {
    const folder = path.join(root, 'migrations');
    const text = readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(path.join(folder, file), 'utf8'))
      .join('');
    const made = [...text.matchAll(/createTable\('(\w+)'\)/g)];
    const named = tableRows(readme.section('Own tables')).flatMap(([name = '']) => codeIn(name));
    expect(sorted(named)).toEqual(sorted(made.map(([, name = '']) => name)));
  });

  it('shows the floors as they are held, and says what is not built', () => {
    const [map = ''] = codeBlocks(readme.section('The house'), '');
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
      const isLater = new RegExp(`\\b${room}\\s+\\(later\\)`).test(map);
      expect([room, isLater]).toEqual([room, !built.has(room)]);
      expect([room, LATER.has(room)]).toEqual([room, !built.has(room)]);
    }
  });

  it('leads nowhere that is not there', () => {
    const prose = proseOf(readme.text);
    const anchors = [...prose.matchAll(/\]\(#([\w-]+)\)/g)].map(([, anchor]) => anchor);
    const headings = [...prose.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    );
    for (const anchor of anchors) expect(headings).toContain(anchor);
    const files = codeIn(prose).filter(
      (code) => /^(src|test|config|migrations)\/[\w./-]*$/.test(code) && code !== 'config/content-sync.yaml',
    );
    expect(files.length).toBeGreaterThan(5);
    for (const file of files) expect(() => readdirSync(path.join(root, path.dirname(file)))).not.toThrow();
  });
});
