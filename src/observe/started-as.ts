// Rewrites the commands in hints to what the user can type: `npm run -s content-sync -- sync` in a clone.
const COMMAND =
  /(?<![\w/-])content-sync (?=(?:init|check|probe|backfill|sync|serve|worker|control|warehouse|health|pause|resume|retry|status|runs|verify|files|grants|rebuild|forget|deletes|deliveries|alerts|backup|export|demo|sandbox|config|explain)\b)/g;

/** Rewrites commands so that the user can type them: in a clone, npm runs content-sync by a script of package.json. */
export function toTypableCommands(text: string): string {
  const script = process.env['npm_lifecycle_event'] ?? '';
  return ['content-sync', 'demo'].includes(script) ? text.replace(COMMAND, 'npm run -s content-sync -- ') : text;
}
