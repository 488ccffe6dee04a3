// Written by `memd connect`; `memd disconnect opencode` removes it.
// Adds to a prompt what memd tells an agent: at the beginning of a session, and what answers the prompt.
import { spawn } from "node:child_process"

const COMMANDS = __COMMANDS__
const PATIENCE_MS = 10000

// The text of one hook; empty for nothing, whatever goes wrong.
function told(event, payload) {
  return new Promise((resolve) => {
    const hook = spawn("/bin/sh", ["-c", COMMANDS[event]], { stdio: ["pipe", "pipe", "ignore"], timeout: PATIENCE_MS })
    let answer = ""
    hook.stdout.setEncoding("utf8").on("data", (data) => (answer += data))
    hook.stdin.on("error", () => {})
    hook.on("error", () => resolve(""))
    hook.on("close", () => {
      try {
        resolve(JSON.parse(answer).hookSpecificOutput.additionalContext)
      } catch {
        resolve("")
      }
    })
    hook.stdin.end(JSON.stringify(payload))
  })
}

export const memd = async ({ directory }) => {
  const begun = new Set()
  return {
    "chat.message": async ({ sessionID }, { message, parts }) => {
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic)
      if (!typed.length) return
      const payload = { cwd: directory, session_id: sessionID, prompt: typed.map((part) => part.text).join("\n") }
      const events = begun.has(sessionID) ? ["UserPromptSubmit"] : ["SessionStart", "UserPromptSubmit"]
      begun.add(sessionID)
      const texts = (await Promise.all(events.map((event) => told(event, payload)))).filter(Boolean)
      // Parts are kept in the order of their ids.
      const id = `${parts.at(-1).id}memd`
      if (texts.length) parts.push({ id, sessionID, messageID: message.id, type: "text", synthetic: true, text: texts.join("\n\n") })
    },
  }
}
