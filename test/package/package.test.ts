import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { root, run } from './built.ts';

const textOf = (file: string): string => readFileSync(path.join(root, file), 'utf8');
const manifest: { version: string; license: string } = JSON.parse(textOf('package.json'));

function packedFiles(folder: string): string[] {
  const { stdout } = run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], folder);
  const packed: { files: { path: string }[] }[] = JSON.parse(stdout);
  return (packed[0]?.files ?? []).map((file) => file.path);
}

describe('the package', () => {
  it('contains every file that its documentation links to, and no link to a package of a registry', () => {
    const files = packedFiles(root);
    const pages = files.filter((file) => file.endsWith('.md'));
    const texts = files.filter((file) => !/^dist\/|\.png$/.test(file));
    expect(texts.filter((file) => textOf(file).includes('npmjs.com/package'))).toEqual([]);
    expect(files).toContain('config/profiles/content-service.yaml');
    expect(files.filter((file) => /^(src|test|migrations)\/.*\.ts$|node_modules/.test(file))).toEqual([]);
    expect(pages).toEqual(expect.arrayContaining(['README.md', 'CHANGELOG.md', 'config/README.md']));
    for (const page of pages) {
      const links = [...textOf(page).matchAll(/\]\(([^)#\s]+)|(?:src|srcset)="([^"]+)"/g)];
      const targets = links.map(([, link, picture]) => link ?? picture ?? '').filter((link) => !/^https?:/.test(link));
      const missing = targets.filter((target) => !files.includes(path.posix.join(path.posix.dirname(page), target)));
      expect({ page, missing }).toEqual({ page, missing: [] });
    }
  });

  it('names its version in the changelog and in the lock file, and no licence', () => {
    expect(/^## (\S+)/m.exec(textOf('CHANGELOG.md'))?.[1]).toBe(manifest.version);
    const lock: typeof manifest & { packages: Record<string, { version: string }> } = JSON.parse(
      textOf('package-lock.json'),
    );
    expect([lock.version, lock.packages['']?.version]).toEqual([manifest.version, manifest.version]);
    expect(manifest.license).toBe('UNLICENSED');
  });
});
