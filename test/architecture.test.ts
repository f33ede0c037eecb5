import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { FLOORS, type SourceTree, violations } from './support/floors.ts';

const root = path.join(import.meta.dirname, '..');

function sourceTree(): SourceTree {
  const files = readdirSync(path.join(root, 'src'), { recursive: true, encoding: 'utf8' });
  return new Map(
    files
      .filter((file) => file.endsWith('.ts'))
      .map((file) => [`src/${file.split(path.sep).join('/')}`, readFileSync(path.join(root, 'src', file), 'utf8')]),
  );
}

describe('the floors', () => {
  it('are kept by every file in src', () => {
    const tree = sourceTree();
    expect(tree.size).toBeGreaterThan(50);
    expect(violations(tree)).toEqual([]);
  });

  it.each([
    ['an import that rises', 'src/http/budget.ts', "import { run } from '../sync/run.ts';", 'http may not see sync'],
    [
      'the sandbox seen from below cli',
      'src/sync/run.ts',
      "import { startSandbox } from '../sandbox/sandbox.ts';",
      'sync may not see sandbox',
    ],
    [
      'a comment that names a file that is not there',
      'src/load/diff.ts',
      '/** See load/no-such-file.ts. */',
      'names load/no-such-file.ts, which is not there',
    ],
    ['a file that is two things', 'src/load/difference.ts', 'const one = 1;\n'.repeat(501), 'more than 500'],
    ['a name that says nothing', 'src/load/utils.ts', '', '"utils" says nothing'],
  ])('find %s', (_, file, text, expected) => {
    const seeded = new Map([...sourceTree(), [file, text]]);
    expect(violations(seeded).join('\n')).toContain(expected);
  });

  it('find a circle', () => {
    const seeded = new Map([
      ['src/load/a.ts', "import { b } from './b.ts';"],
      ['src/load/b.ts', "import { a } from './a.ts';"],
    ]);
    expect(violations(seeded)).toEqual(['circle: src/load/a.ts > src/load/b.ts > src/load/a.ts']);
  });

  it('are shown in the README as they are', () => {
    const readme = readFileSync(path.join(root, 'src', 'README.md'), 'utf8');
    for (const room of FLOORS.flat()) {
      expect(readme).toMatch(new RegExp(`\\b${room.replace('.', '\\.')}`));
    }
  });
});
