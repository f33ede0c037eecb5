import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { stringify } from 'yaml';
import type { Client, ReadableCopy } from './client.ts';
import { pythonWith, reasonOf, runProgram } from './installing.ts';

let python = 'python3';

function outputOf({ database, file, ownerUrl, schema, folder }: ReadableCopy): object {
  if (database === 'sqlite') {
    const paths = { main: path.join(folder, 'dbt.db'), [schema]: file };
    return {
      type: 'sqlite',
      threads: 1,
      database: 'database',
      schema: 'main',
      schemas_and_paths: paths,
      schema_directory: folder,
    };
  }
  const { hostname, port, username, password, pathname } = new URL(ownerUrl);
  const server = { host: hostname, port: Number(port), user: username, password: password === '' ? 'none' : password };
  return { type: 'postgres', threads: 2, ...server, dbname: pathname.slice(1), schema: 'dbt_models' };
}

/** Parses, builds and tests the exported project: what it reads it does not tell, so its types are taken as they are. */
export const DBT: Client = {
  name: 'dbt',
  databases: ['sqlite', 'postgres'],
  install: () =>
    reasonOf(async () => {
      python = await pythonWith(
        'dbt',
        ['dbt.cli.main', 'dbt.adapters.postgres'],
        ['dbt-core', 'dbt-postgres', 'dbt-sqlite'],
      );
    }),
  read: async (copy) => {
    const project = path.join(copy.folder, 'project');
    await copy.command('export', 'dbt', project);
    const outputs = { copy: outputOf(copy) };
    writeFileSync(path.join(project, 'profiles.yml'), stringify({ content_sync: { target: 'copy', outputs } }));
    const options = { cwd: project, env: { DBT_SEND_ANONYMOUS_USAGE_STATS: 'false' } };
    for (const args of [['parse'], ['build'], ['source', 'freshness']]) {
      await runProgram(python, ['-m', 'dbt.cli.main', ...args, '--profiles-dir', project], options);
    }
    if (!existsSync(path.join(project, 'target/manifest.json'))) throw new Error('it wrote no manifest');
    return new Map(
      copy.tables.map(({ name, columns }) => [name, new Map(columns.map((each) => [each.name, each.type]))]),
    );
  },
  words: () => ({
    boolean: /./,
    integer: /./,
    double: /./,
    numeric: /./,
    date: /./,
    timestamp: /./,
    text: /./,
    json: /./,
  }),
};
