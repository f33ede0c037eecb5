import { stringify } from 'yaml';
import { plainName } from './names.ts';

/** What stands beside the project for those who open it. */
export const README = `# The copy of content-sync, for dbt

\`content-sync export dbt\` wrote this project: sources (\`models/sources.yml\`), a model on each live view
(\`models/staging\`), their tests, and how fresh the copy is. Write models of your own beside them, and exposures.

- Needs dbt 1.10.8 or later, with the adapter for Postgres, or the community's for SQLite. Copy \`profiles.example.yml\`
  to \`profiles.yml\` and fill it in; then \`dbt build\` and \`dbt source freshness\`.
- \`content-sync export dbt\` may be run again whenever columns or tables came: it writes its own files anew, and leaves
  alone whatever was changed by hand (\`--force\` writes it over). Each file of its own says so in its first line.
- Keys are tested for being unique and there, references for leading somewhere: one that leads nowhere is a warning,
  because it is the service that keeps them.
- On SQLite the copy is attached to a database file of dbt's own, under the name of the source, so that dbt never writes
  to it. A view there sees no other file, so staging models are tables; and types are what the columns hold.
`;

/** Profiles for both databases; nothing in it is secret. */
export function profilesOf(sources: readonly { name: string; schema: string }[]): string {
  const paths = Object.fromEntries(sources.map(({ name, schema }) => [schema, `path/to/${plainName(name)}.db`]));
  return stringify({
    content_sync: {
      target: 'postgres',
      outputs: {
        postgres: {
          type: 'postgres',
          host: "{{ env_var('PGHOST') }}",
          port: 5432,
          user: "{{ env_var('PGUSER') }}",
          password: "{{ env_var('PGPASSWORD') }}",
          dbname: "{{ env_var('PGDATABASE') }}",
          schema: 'analytics',
          threads: 4,
        },
        sqlite: {
          type: 'sqlite',
          threads: 1,
          database: 'database',
          schema: 'main',
          schemas_and_paths: { main: 'path/to/dbt.db', ...paths },
          schema_directory: 'path/to',
        },
      },
    },
  });
}
