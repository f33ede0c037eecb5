import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isAllowed, licenceTable, licensesOf, productionSbom } from './sbom.ts';

/** `npm run sbom`: what the package brings along, beside its build, so that both are shipped together. */
const root = path.join(import.meta.dirname, '..', '..');
const folder = path.resolve(root, process.argv[2] ?? path.join('dist', 'sbom'));

const sbom = productionSbom(root);
const packages = licensesOf(sbom);
mkdirSync(folder, { recursive: true });
write('content-sync.cdx.json', `${JSON.stringify(sbom, null, 2)}\n`);
write('licences.md', licenceTable(packages));
process.stdout.write(`${packages.length} production packages\n`);
for (const { name, licence } of packages.filter((each) => !isAllowed(each.licence))) {
  process.stderr.write(`${name}: its licence is not allowed (${licence ?? 'unknown'}): see test/package/sbom.ts\n`);
  process.exitCode = 1;
}

function write(name: string, text: string): void {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  process.stdout.write(`${path.relative(root, file)}\n`);
}
