import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';

interface Component {
  'bom-ref': string;
  name: string;
  version: string;
  properties?: { name: string; value: string }[];
  licenses?: Licence[];
}

/** As CycloneDX has it: an id of SPDX, another name, or several of them as an expression. */
type Licence = { license: { id?: string; name?: string } } | { expression: string };

/** A CycloneDX document, as far as it is looked into here. */
export interface Sbom {
  bomFormat: string;
  specVersion: string;
  metadata: { component: { 'bom-ref': string; name: string } };
  components: Component[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

/** Licences under which a package may be used in production: none asks for the source of what uses it. */
const ALLOWED: ReadonlySet<string> = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'CC0-1.0',
  'ISC',
  'MIT',
  'MIT-0',
  'Unlicense',
]);
const DEVELOPMENT = 'cdx:npm:package:development';

/**
 * All production packages of the lock file in `folder`, without asking a registry. npm's own `--omit dev` also leaves
 * out what development needs besides (npm/cli#7909), so that everything is asked for and the rest taken out here.
 */
export function productionSbom(folder: string): Sbom {
  const args = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'];
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8', maxBuffer: 2 ** 26 });
  if (status !== 0) throw new Error(`npm sbom failed: ${stderr}`);
  const { name }: { name: string } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  const whole: Sbom = JSON.parse(stdout);
  const components = whole.components.filter((each) => !isForDevelopment(each));
  const kept = new Set([whole.metadata.component['bom-ref'], ...components.map((each) => each['bom-ref'])]);
  const dependencies = whole.dependencies
    .filter(({ ref }) => kept.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => kept.has(each)) }));
  // npm takes the folder's name.
  const metadata = { ...whole.metadata, component: { ...whole.metadata.component, name } };
  return { ...whole, metadata, components, dependencies };
}

function isForDevelopment({ properties = [] }: Component): boolean {
  return properties.some(({ name, value }) => name === DEVELOPMENT && value === 'true');
}

/** One package and its licence; null where none is known. */
export interface Licensed {
  name: string;
  version: string;
  licence: string | null;
}

/** By name. */
export function licensesOf({ components }: Sbom): Licensed[] {
  const all = components.map(({ name, version, licenses = [] }) => {
    const licence = licenses.map(licenceText).join(' AND ');
    return { name, version, licence: licence === '' ? null : licence };
  });
  return all.toSorted((a, b) => a.name.localeCompare(b.name, 'en'));
}

function licenceText(licence: Licence): string {
  return 'expression' in licence ? licence.expression : (licence.license.id ?? licence.license.name ?? 'unknown');
}

/** True where it may be used under one of the licences above; of a choice (`OR`) one is enough. */
export function isAllowed(licence: string | null): boolean {
  const inner = /^\(([^()]*)\)$/.exec(licence ?? '')?.[1] ?? licence ?? '';
  return inner.split(' OR ').some((choice) => choice.split(' AND ').every((each) => ALLOWED.has(each)));
}

/** As a table in Markdown. */
export function licenceTable(packages: readonly Licensed[]): string {
  const rows = packages.map(({ name, version, licence }) => `| ${name} | ${version} | ${licence ?? 'unknown'} |`);
  return ['| package | version | licence |', '| --- | --- | --- |', ...rows, ''].join('\n');
}
