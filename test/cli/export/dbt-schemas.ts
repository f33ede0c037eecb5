import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';

/**
 * The schemas of dbt-labs/dbt-jsonschema (Apache-2.0), which are not in this repository: its folder `schemas`, or a copy
 * of it in the shared data.
 */
const folder =
  process.env['DBT_JSON_SCHEMAS'] ?? fileURLToPath(new URL('../../../../shared/data/dbt-jsonschema', import.meta.url));

/** Where a project is no project: for dbt Core, and for the stricter Fusion. */
const FILES = {
  dbt_project: ['latest/dbt_project-latest.json', 'latest_fusion/dbt_project-latest-fusion.json'],
  sources: ['latest/dbt_yml_files-latest.json', 'latest_fusion/dbt_yml_files-latest-fusion.json'],
} as const;

const compiled = new Map<string, ReturnType<Ajv['compile']>>();

function validator(file: string): ReturnType<Ajv['compile']> {
  const known = compiled.get(file);
  if (known !== undefined) return known;
  const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
  const made = ajv.compile(JSON.parse(readFileSync(path.join(folder, file), 'utf8')));
  compiled.set(file, made);
  return made;
}

/** What the schemas have against parsed files; null, with a line that says so, where there are no schemas. */
export function schemaFaults(files: Readonly<Record<keyof typeof FILES, unknown>>): string[] | null {
  if (!existsSync(folder)) {
    console.log('skipped: no schemas of dbt in ../shared/data/dbt-jsonschema, and DBT_JSON_SCHEMAS names none');
    return null;
  }
  return Object.entries(FILES).flatMap(([kind, schemas]) =>
    schemas.flatMap((schema) => {
      const validate = validator(schema);
      const value = kind === 'dbt_project' ? files.dbt_project : files.sources;
      return validate(value) ? [] : [`${kind} by ${schema}: ${JSON.stringify(validate.errors?.slice(0, 5))}`];
    }),
  );
}
