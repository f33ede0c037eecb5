import { rowsOf } from './copied-cells.ts';

/** What people make on `content` who read it, some of it in the name of a new role. */
export const madeByPeople = (role: string): string => `
  CREATE ROLE ${role}; CREATE ROLE "odd ""${role}";
  CREATE INDEX by_score ON content (score DESC, id) WHERE score IS NOT NULL;
  CREATE UNIQUE INDEX "odd ""name" ON content (id, score, (score || 'score')) INCLUDE (rate);
  COMMENT ON INDEX by_score IS 'of '' people';
  COMMENT ON COLUMN content.score IS 'our own words';
  GRANT SELECT ON content TO ${role};
  GRANT SELECT (score) ON content TO "odd ""${role}" WITH GRANT OPTION;
  CREATE VIEW scores WITH (security_barrier) AS SELECT id, score, 'score' AS "odd ""column" FROM content;
  COMMENT ON VIEW scores IS 'all of them';
  COMMENT ON COLUMN scores.score IS 'one';
  CREATE VIEW best AS SELECT max(score::text::int)::text AS top FROM scores WHERE score::text ~ '^[0-9]+$';
  CREATE VIEW both_of_them AS SELECT s.id, b.top FROM scores s JOIN best b ON b.top = s.score::text;
  ALTER VIEW best OWNER TO ${role};
  GRANT SELECT ON best TO PUBLIC;
  GRANT SELECT ON scores TO ${role};
  GRANT SELECT (id) ON scores TO ${role};
  REVOKE ALL ON both_of_them FROM ${role};
  CREATE MATERIALIZED VIEW kept AS SELECT id, rate FROM content WHERE rate IS NOT NULL;
  CREATE INDEX in_kept ON kept (rate);
  CREATE MATERIALIZED VIEW empty AS SELECT id, score FROM content WITH NO DATA;
  CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
  CREATE TRIGGER through INSTEAD OF DELETE ON scores FOR EACH ROW EXECUTE FUNCTION nothing();
  CREATE RULE around AS ON INSERT TO scores DO INSTEAD NOTHING;
  CREATE TRIGGER noted AFTER UPDATE ON content FOR EACH ROW EXECUTE FUNCTION nothing()`;

/** All that the people made, as text. */
const AS_MADE = `
  SELECT c.relname || coalesce('.' || attname, '') AS name, relkind, pg_get_userbyid(relowner) AS owner, relispopulated,
    reloptions, CASE WHEN attname IS NULL THEN relacl::text ELSE attacl::text END AS acl,
    CASE WHEN relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END AS definition,
    CASE WHEN attname IS NULL THEN obj_description(c.oid, 'pg_class') ELSE col_description(c.oid, attnum) END AS comment
  FROM pg_class c LEFT JOIN LATERAL (
    SELECT NULL::name AS attname, 0::smallint AS attnum, NULL::aclitem[] AS attacl
    UNION ALL SELECT attname, attnum, attacl FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
      AND (attname = 'score' OR relkind = 'v')
  ) a ON true
  WHERE relnamespace = 'blog'::regnamespace AND relkind IN ('v', 'm', 'r') AND relname !~ '^_sync'
  UNION ALL
  SELECT indexname, 'i', '', true, NULL, NULL, indexdef, obj_description(('blog.' || quote_ident(indexname))::regclass)
  FROM pg_indexes WHERE schemaname = 'blog' AND indexname !~ '^_sync'
  UNION ALL
  SELECT tgname, 't', '', true, NULL, NULL, pg_get_triggerdef(oid), NULL FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL
  SELECT rulename, 'u', '', true, NULL, NULL, definition, NULL FROM pg_rules WHERE schemaname = 'blog'
  ORDER BY 1, 2`;

/** All that people made, without the casts to text, which nobody needs once a column is a text. */
export async function peoplesOwn(address: string): Promise<unknown[]> {
  const rows = await rowsOf(address, AS_MADE);
  return rows.map(({ definition, ...others }) => [
    others,
    typeof definition === 'string' ? definition.replaceAll(/\(((s\.)?score)\)::text/g, '$1') : null,
  ]);
}
