import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { startScript } from '../support/child-script.ts';
import { root, tempFolder } from './built.ts';
import { isAllowed, licensesOf, type Sbom } from './sbom.ts';

const textOf = (...names: string[]): string => readFileSync(path.join(root, ...names), 'utf8');

/** Names and versions of all packages that the lock file has in production, each once. */
function locked(): string[] {
  const { packages }: { packages: Record<string, { version: string; dev?: boolean }> } = JSON.parse(
    textOf('package-lock.json'),
  );
  const production = Object.entries(packages).filter(([place, { dev }]) => place !== '' && dev !== true);
  const names = production.map(([place, { version }]) => `${place.replace(/^.*node_modules\//, '')}@${version}`);
  return [...new Set(names)].toSorted();
}

describe('npm run sbom', () => {
  it('F218 lists every production package and its licence, without a network, and the README of the tests counts them', async () => {
    const folder = tempFolder();
    // Nobody listens there: a question to a registry would fail.
    const env = 'export npm_config_registry=http://127.0.0.1:9 npm_config_fetch_retries=0; exec';
    const script = new URL('write-sbom.ts', import.meta.url);
    const { code, stdout, stderr } = await startScript(script, [folder], env).ended;
    expect([code, stderr]).toEqual([0, '']);
    const sbom: Sbom = JSON.parse(readFileSync(path.join(folder, 'content-sync.cdx.json'), 'utf8'));
    const manifest: { name: string; version: string; dependencies: object } = JSON.parse(textOf('package.json'));
    const [whole, packages] = [`${manifest.name}@${manifest.version}`, locked()];
    expect(sbom).toMatchObject({ bomFormat: 'CycloneDX', metadata: { component: { name: manifest.name } } });
    expect(sbom.components.map((each) => each['bom-ref']).toSorted()).toEqual(packages);
    // Each of them is reached from the package, and leads to no other.
    expect(new Set(sbom.dependencies.map(({ ref }) => ref))).toEqual(new Set([whole, ...packages]));
    expect(new Set(sbom.dependencies.flatMap(({ dependsOn }) => dependsOn))).toEqual(new Set(packages));

    const licences = licensesOf(sbom);
    expect(licences.filter(({ licence }) => !isAllowed(licence))).toEqual([]);
    const table = readFileSync(path.join(folder, 'licences.md'), 'utf8').trimEnd().split('\n').slice(2);
    expect(table).toEqual(licences.map((each) => `| ${each.name} | ${each.version} | ${each.licence} |`));
    expect(stdout).toContain(`${packages.length} production packages\n`);
    const counted = /(\d+) production packages, (\d+) of them named in `package\.json`/.exec(
      textOf('test', 'README.md'),
    );
    expect(counted?.slice(1).map(Number)).toEqual([packages.length, Object.keys(manifest.dependencies).length]);
  });

  it.each([
    ['MIT', true],
    ['(MIT OR CC0-1.0)', true],
    ['GPL-3.0-only OR MIT', true],
    ['MIT AND ISC', true],
    ['MIT AND GPL-3.0-only', false],
    ['GPL-3.0-only', false],
    ['(GPL-2.0-only OR (MIT AND ISC))', false],
    ['SEE LICENSE IN LICENSE.md', false],
    ['', false],
    [null, false],
  ])('a package under %o may be used: %s', (licence, may) => {
    expect(isAllowed(licence)).toBe(may);
  });
});
