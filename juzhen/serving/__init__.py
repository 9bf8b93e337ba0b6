"""An HTTP server of encoders, which OpenAI's and Cohere's clients speak to."""
