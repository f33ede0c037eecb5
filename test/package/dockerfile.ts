import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { root, run, tempFolder } from './built.ts';

interface Instruction {
  name: string;
  text: string;
}

const INSTALL = 'npm ci --ignore-scripts';
const MAKE_FOLDER = /^install -d -o node -g node (\S+)$/;

const dockerfile: readonly Instruction[] = readFileSync(path.join(root, 'Dockerfile'), 'utf8')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .flatMap((line) => {
    const [, name, text] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    return name === undefined || text === undefined ? [] : [{ name, text }];
  });

/** The texts of all instructions of a name. */
export function instructionTexts(name: string): string[] {
  return dockerfile.filter((each) => each.name === name).map(({ text }) => text);
}

/** The words of ENTRYPOINT or CMD. */
export function execForm(name: string): string[] {
  return JSON.parse(instructionTexts(name).at(-1) ?? '[]');
}

/**
 * Follows the Dockerfile without Docker: each stage is a folder that holds what `COPY` names and nothing else, and its
 * commands run there. Packages are taken from this checkout instead of downloaded. Returns the root of the last stage.
 */
export function buildImage(): string {
  const stages = new Map<string, string>();
  let [stage, workdir] = ['', '/'];
  const inStage = (name: string): string => path.join(stage, path.posix.resolve(workdir, name));
  for (const { name, text } of dockerfile) {
    const words = text.split(' ');
    if (name === 'FROM') {
      stage = tempFolder();
      stages.set(words[2] ?? 'last', stage);
      workdir = '/';
    } else if (name === 'WORKDIR') {
      workdir = text;
    } else if (name === 'COPY') {
      const [, from] = /^--from=(\S+)$/.exec(words[0] ?? '') ?? [];
      const target = words.at(-1) ?? '';
      for (const source of words.slice(from === undefined ? 0 : 1, -1)) {
        const to = inStage(target.endsWith('/') ? path.join(target, path.basename(source)) : target);
        if (from === undefined) copyFromContext(source, to);
        else cpSync(path.join(stages.get(from) ?? 'no such stage', source), to, { recursive: true });
      }
    } else if (name === 'RUN') {
      mkdirSync(inStage('.'), { recursive: true });
      runInStage(text, stage, inStage('.'));
    }
  }
  return stage;
}

/** What `.dockerignore` hides is not there for Docker. */
function copyFromContext(source: string, to: string): void {
  expect([source, isInContext(source)]).toEqual([source, true]);
  const filter = (file: string): boolean => isInContext(path.relative(root, file));
  cpSync(path.join(root, source), to, { recursive: true, filter });
}

function runInStage(command: string, stage: string, cwd: string): void {
  const [, made] = MAKE_FOLDER.exec(command) ?? [];
  if (command === INSTALL) {
    linkPackages(path.join(cwd, 'node_modules'));
  } else if (made !== undefined) {
    mkdirSync(path.join(stage, made), { recursive: true });
  } else {
    const [program, ...args] = command.split(' ');
    expect(program).toBe('node');
    const { status, stderr } = run(process.execPath, args, cwd);
    expect([command, status, stderr]).toEqual([command, 0, '']);
  }
}

/** Links, except for the package that the next command changes. */
function linkPackages(modules: string): void {
  mkdirSync(modules, { recursive: true });
  const installed = path.join(root, 'node_modules');
  for (const name of readdirSync(installed)) {
    const [from, to] = [path.join(installed, name), path.join(modules, name)];
    if (name === 'better-sqlite3') cpSync(from, to, { recursive: true });
    else if (name !== '.cache') symlinkSync(from, to);
  }
}

function isInContext(file: string): boolean {
  const rules = readFileSync(path.join(root, '.dockerignore'), 'utf8').trim().split('\n');
  let isIgnored = false;
  for (const rule of rules) {
    const pattern = rule.replace(/^!/, '');
    if (pattern === '*' || file === pattern || path.matchesGlob(file, pattern) || file.startsWith(`${pattern}/`))
      isIgnored = !rule.startsWith('!');
  }
  return !isIgnored;
}
