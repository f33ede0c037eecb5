import { globSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const PACKAGE = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//;

/** Writes `licences.txt`: the licence of every package that has a module among these (absolute paths). */
export function writeLicences(folder: string, modules: readonly string[]): void {
  const packages = new Map<string, string>();
  for (const id of modules) {
    const [, place, name] = PACKAGE.exec(id.replace(/^\0/, '')) ?? [];
    if (place !== undefined && name !== undefined) packages.set(name, place);
  }
  const texts = Array.from(packages, ([name, place]) => `${name}\n\n${licenceOf(place)}\n`);
  writeFileSync(path.join(folder, 'licences.txt'), texts.toSorted().join(`\n${'-'.repeat(80)}\n\n`));
}

function licenceOf(place: string): string {
  const files = globSync('{licen[cs]e,LICEN[CS]E,Licen[cs]e,notice,NOTICE}*', { cwd: place });
  if (files.length > 0) return files.map((file) => readFileSync(path.join(place, file), 'utf8')).join('\n');
  const { license, author }: { license?: string; author?: string | { name: string } } = JSON.parse(
    readFileSync(path.join(place, 'package.json'), 'utf8'),
  );
  return `${license ?? 'unknown'}, by ${typeof author === 'string' ? author : (author?.name ?? 'its authors')}`;
}
